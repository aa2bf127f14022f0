"""remember who held seats of deleted forks"""

import sqlalchemy as sa
from alembic import op

revision = "5e0b7c9d2a14"
down_revision = "d4a90e6b13c7"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("seen_views", sa.Column("held", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("seen_views", "held")
