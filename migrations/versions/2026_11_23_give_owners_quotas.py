"""give owners quotas"""

import sqlalchemy as sa
from alembic import op

revision = "5e2c9d7a40b8"
down_revision = "e7a40b9c25d1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "quotas",
        sa.Column("owner", sa.String(length=120), nullable=False),
        sa.Column("limits", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("owner"),
    )
    op.create_table(
        "quota_use",
        sa.Column("owner", sa.String(length=120), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "day", "name"),
    )
    op.create_table(
        "owner_spending",
        sa.Column("account", sa.String(length=40), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(length=120), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("account", "day"),
    )
    op.create_index("ix_owner_spending_owner", "owner_spending", ["owner", "day"])
    op.add_column("model_spending", sa.Column("owner", sa.String(length=120), nullable=True))


def downgrade() -> None:
    op.drop_column("model_spending", "owner")
    op.drop_index("ix_owner_spending_owner", "owner_spending")
    op.drop_table("owner_spending")
    op.drop_table("quota_use")
    op.drop_table("quotas")
