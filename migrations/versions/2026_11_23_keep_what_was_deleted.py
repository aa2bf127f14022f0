"""keep what was deleted, and which programs the schema serves"""

import sqlalchemy as sa
from alembic import op

revision = "b7d2f04c91ae"
down_revision = "a4b8d35e9c17"
branch_labels = None
depends_on = None

oldest_program = "b7d2f04c91ae"


def upgrade() -> None:
    op.create_table(
        "schema_programs",
        sa.Column("revision", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("revision"),
    )
    op.create_table(
        "deletions",
        sa.Column("game_id", sa.String(length=40), nullable=False),
        sa.Column("batch_id", sa.String(length=40), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.String(length=100), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("game_id"),
    )


def downgrade() -> None:
    op.drop_table("deletions")
    op.drop_table("schema_programs")
