"""keep defaults and invalid games"""

import sqlalchemy as sa
from alembic import op

revision = "a4b8d35e9c17"
down_revision = "e2c47f81a9d6"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("games", sa.Column("defaults", sa.JSON(), nullable=True))
    op.add_column("games", sa.Column("invalid", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("games", "invalid")
    op.drop_column("games", "defaults")
