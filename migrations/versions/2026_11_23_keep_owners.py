"""keep owners, tokens and who did what

Whose a batch is, stood in it already. Evaluations belong to the credential that handed them in.
"""

import sqlalchemy as sa
from alembic import op

revision = "5c1e7d90a2b6"
down_revision = "a46c9e17d2b8"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("project", sa.String(length=64), nullable=True))
    op.add_column("api_keys", sa.Column("compromised_at", sa.BigInteger(), nullable=True))
    op.add_column("evaluations", sa.Column("owner", sa.String(), nullable=False, server_default=""))
    op.execute("UPDATE evaluations SET owner = caller")
    op.add_column("games", sa.Column("taken", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("claim_codes", sa.Column("by", sa.String(length=100), nullable=True))
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.String(length=40), nullable=False),
        sa.Column("game_id", sa.String(length=40), nullable=True),
        sa.Column("batch_id", sa.String(length=40), nullable=False),
        sa.Column("seat", sa.SmallInteger(), nullable=True),
        sa.Column("owner", sa.String(length=100), nullable=False),
        sa.Column("by", sa.String(length=100), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("token_id"),
    )
    op.create_index("ix_tokens_owner", "tokens", ["owner", "created_at", "token_id"])
    op.create_index("ix_tokens_game_id", "tokens", ["game_id"])
    op.create_index("ix_tokens_expires", "tokens", ["expires_at"])
    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.String(length=100), nullable=False),
        sa.Column("owner", sa.String(length=100), nullable=False),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("object", sa.String(length=100), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_index("ix_audit_object", "audit", ["object"])


def downgrade() -> None:
    op.drop_table("audit")
    op.drop_table("tokens")
    op.drop_column("claim_codes", "by")
    op.drop_column("games", "taken")
    op.drop_column("evaluations", "owner")
    op.drop_column("api_keys", "compromised_at")
    op.drop_column("api_keys", "project")
