"""let seats be claimed by a code"""

import sqlalchemy as sa
from alembic import op

revision = "e91b47d0c5f3"
down_revision = "c3f70b5e8a12"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "claim_codes",
        sa.Column("code", sa.String(length=64), nullable=False),
        sa.Column("game_id", sa.String(length=40), nullable=False),
        sa.Column("seat", sa.SmallInteger(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("code"),
    )
    op.create_index("ix_claim_codes_game_id", "claim_codes", ["game_id"])


def downgrade() -> None:
    op.drop_index("ix_claim_codes_game_id", table_name="claim_codes")
    op.drop_table("claim_codes")
