"""find old answers to repeated requests"""

from alembic import op

revision = "9c4e17b2f6d0"
down_revision = "3f8a61d0b7c4"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_idempotency_created", "idempotency", ["created_at"])


def downgrade() -> None:
    op.drop_index("ix_idempotency_created", table_name="idempotency")
