"""register bots"""

import sqlalchemy as sa
from alembic import op

revision = "a46c9e17d2b8"
down_revision = "292c34d3e5cd"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bots",
        sa.Column("bot_id", sa.String(length=40), nullable=False),
        sa.Column("owner", sa.String(length=100), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("check_game", sa.String(length=40), nullable=True),
        sa.Column("checked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("bot_id"),
    )
    op.create_index("ix_bots_name", "bots", ["owner", "name", "version"], unique=True)
    op.create_index("ix_bots_created", "bots", ["created_at", "bot_id"])
    op.create_index("ix_bots_check_game", "bots", ["check_game"])


def downgrade() -> None:
    op.drop_index("ix_bots_check_game", table_name="bots")
    op.drop_index("ix_bots_created", table_name="bots")
    op.drop_index("ix_bots_name", table_name="bots")
    op.drop_table("bots")
