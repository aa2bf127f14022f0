"""lease limits of models"""

import sqlalchemy as sa
from alembic import op

revision = "c3f70b5e8a12"
down_revision = "7f3a90c6d1e4"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "model_spending",
        sa.Column("game_id", sa.String(length=40), nullable=False),
        sa.Column("batch_id", sa.String(length=40), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("game_id"),
    )
    op.create_index("ix_model_spending_batch_id", "model_spending", ["batch_id"])
    # What was spent before. A damaged value, which only SQLite can hold, does not count.
    op.execute(
        "INSERT INTO model_spending (game_id, batch_id, tokens, cost) "
        "SELECT games.game_id, games.batch_id, SUM(prompt_tokens + completion_tokens), SUM(cost) "
        "FROM model_calls JOIN games ON games.game_id = model_calls.game_id "
        "WHERE prompt_tokens BETWEEN 0 AND 2147483647 AND completion_tokens BETWEEN 0 AND 2147483647 "
        "AND cost BETWEEN 0 AND 2147483647 GROUP BY games.game_id, games.batch_id"
    )
    op.create_table(
        "model_leases",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("process", sa.String(length=32), nullable=False),
        sa.Column("places", sa.Integer(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("share", sa.Float(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "process"),
    )
    op.create_table(
        "model_limits",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("bounds", sa.String(length=20), nullable=False),
        sa.Column("places", sa.Integer(), nullable=False),
        sa.Column("answers", sa.Integer(), nullable=False),
        sa.Column("lowered_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def downgrade() -> None:
    op.drop_table("model_limits")
    op.drop_table("model_leases")
    op.drop_table("model_spending")
