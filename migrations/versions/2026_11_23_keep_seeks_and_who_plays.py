"""keep seeks and who plays"""

import sqlalchemy as sa
from alembic import op

revision = "292c34d3e5cd"
down_revision = "d05c7a31fb62"
branch_labels = None
depends_on = None

OPEN = sa.text("status = 'open'")


def upgrade() -> None:
    op.create_table(
        "seeks",
        sa.Column("seek_id", sa.String(length=40), nullable=False),
        sa.Column("owner", sa.String(length=100), nullable=False),
        sa.Column("caller", sa.String(length=100), nullable=False),
        sa.Column("bot", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("pool", sa.String(length=80), nullable=False),
        sa.Column("terms", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("starts_by", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("game_id", sa.String(length=40), nullable=True),
        sa.Column("seat", sa.SmallInteger(), nullable=True),
        sa.PrimaryKeyConstraint("seek_id"),
    )
    op.create_index("ix_seeks_pool", "seeks", ["status", "pool", "created_at"])
    op.create_index("ix_seeks_bot", "seeks", ["owner", "bot", "closed_at"])
    op.create_index("ix_seeks_game_id", "seeks", ["game_id"])
    # A bot waits in a pool once, however often it asks.
    op.create_index(
        "ix_seeks_open",
        "seeks",
        ["owner", "bot", "pool"],
        unique=True,
        postgresql_where=OPEN,
        sqlite_where=OPEN,
    )
    op.create_table(
        "open_games",
        sa.Column("game_id", sa.String(length=40), nullable=False),
        sa.Column("owner", sa.String(length=100), nullable=False),
        sa.Column("caller", sa.String(length=100), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("starts_by", sa.BigInteger(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("seats", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.PrimaryKeyConstraint("game_id"),
    )
    op.create_index("ix_open_games_status", "open_games", ["status", "created_at"])
    op.create_table(
        "game_players",
        sa.Column("game_id", sa.String(length=40), nullable=False),
        sa.Column("seat", sa.SmallInteger(), nullable=False),
        sa.Column("owner", sa.String(length=100), nullable=False),
        sa.Column("caller", sa.String(length=100), nullable=False),
        sa.Column("bot", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("seek_id", sa.String(length=40), nullable=False),
        sa.Column("absent_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("game_id", "seat"),
    )
    op.create_index("ix_game_players_bot", "game_players", ["owner", "bot", "version"])
    op.add_column("games", sa.Column("rated", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("games", sa.Column("unrated", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("games", "unrated")
    op.drop_column("games", "rated")
    op.drop_table("game_players")
    op.drop_table("open_games")
    op.drop_table("seeks")
