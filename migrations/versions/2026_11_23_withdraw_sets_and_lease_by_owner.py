"""let sets be withdrawn, and lease places of models by owner"""

import sqlalchemy as sa
from alembic import op

revision = "c81e5f07a3d9"
down_revision = "5e2c9d7a40b8"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("evaluation_sets", sa.Column("withdrawn_at", sa.BigInteger(), nullable=True))
    op.add_column("evaluation_sets", sa.Column("withdrawn", sa.String(length=500), nullable=True))
    op.add_column("model_leases", sa.Column("owners", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    op.drop_column("model_leases", "owners")
    op.drop_column("evaluation_sets", "withdrawn")
    op.drop_column("evaluation_sets", "withdrawn_at")
