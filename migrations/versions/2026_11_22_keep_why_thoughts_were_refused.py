"""keep why thoughts were refused"""

import sqlalchemy as sa
from alembic import op

revision = "c5eee0e88462"
down_revision = "91d4c7f2b6e8"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("inbox", sa.Column("thoughts_refused", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("inbox", "thoughts_refused")
