"""share outages of models"""

import sqlalchemy as sa
from alembic import op

revision = "e2c47f81a9d6"
down_revision = "d91a6c3e5b20"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "model_outages",
        sa.Column("endpoint", sa.String(length=64), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("cause", sa.String(length=200), nullable=False),
        sa.Column("try_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("endpoint"),
    )


def downgrade() -> None:
    op.drop_table("model_outages")
