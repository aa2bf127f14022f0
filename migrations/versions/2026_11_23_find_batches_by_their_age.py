"""find batches by their age"""

from alembic import op

revision = "b7e14c92d803"
down_revision = "b7d2f04c91ae"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Unique, as the id alone is: so SQLite knows that no further sorting is needed.
    op.create_index("ix_batches_created", "batches", ["created_at", "batch_id"], unique=True)


def downgrade() -> None:
    op.drop_index("ix_batches_created", table_name="batches")
