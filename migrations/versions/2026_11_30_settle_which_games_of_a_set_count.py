"""settle which games of a set count when it opens"""

import sqlalchemy as sa
from alembic import op

revision = "d4a90e6b13c7"
down_revision = "9c4e17b2f6d0"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("evaluation_sets", sa.Column("invalid", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("evaluation_sets", "invalid")
