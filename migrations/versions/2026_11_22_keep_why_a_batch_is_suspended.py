"""keep why a batch is suspended"""

import sqlalchemy as sa
from alembic import op

revision = "d91a6c3e5b20"
down_revision = "8d1f60c3a9e5"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batches", sa.Column("suspended", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("batches", "suspended")
