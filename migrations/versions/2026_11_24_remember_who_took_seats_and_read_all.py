"""remember who took seats by a code, and which keys once read everything"""

import sqlalchemy as sa
from alembic import op

revision = "3f8a61d0b7c4"
down_revision = "c81e5f07a3d9"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("claim_codes", sa.Column("used_by", sa.String(length=100), nullable=True))
    op.add_column("api_keys", sa.Column("saw_all_until", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("api_keys", "saw_all_until")
    op.drop_column("claim_codes", "used_by")
