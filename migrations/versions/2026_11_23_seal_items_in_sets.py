"""seal items in sets"""

import sqlalchemy as sa
from alembic import op

revision = "7be2c9d04a61"
down_revision = "5c1e7d90a2b6"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "evaluation_sets",
        sa.Column("set_id", sa.String(length=40), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("closes_at", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("dimension", sa.String(length=16), nullable=False),
        sa.Column("variant", sa.JSON(), nullable=False),
        sa.Column("items", sa.Integer(), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=True),
        sa.Column("scored_at", sa.BigInteger(), nullable=True),
        sa.Column("excluded", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("set_id"),
    )
    op.create_index("ix_evaluation_sets_created", "evaluation_sets", ["created_at", "set_id"])
    op.create_table(
        "set_items",
        sa.Column("set_id", sa.String(length=40), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("item_id", sa.String(length=160), nullable=False),
        sa.Column("game_id", sa.String(length=40), nullable=False),
        sa.Column("origin", sa.String(length=40), nullable=False),
        sa.Column("request_id", sa.String(length=40), nullable=False),
        sa.Column("seat", sa.SmallInteger(), nullable=False),
        sa.ForeignKeyConstraint(["set_id"], ["evaluation_sets.set_id"]),
        sa.PrimaryKeyConstraint("set_id", "position"),
    )
    op.create_index("ix_set_items_game", "set_items", ["game_id"])
    op.create_index("ix_set_items_origin", "set_items", ["origin"])
    op.create_table(
        "set_entries",
        sa.Column("set_id", sa.String(length=40), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("rater", sa.String(length=80), nullable=False),
        sa.Column("entry_id", sa.String(length=40), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("answers", sa.Integer(), nullable=False),
        sa.Column("items", sa.Integer(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["set_id"], ["evaluation_sets.set_id"]),
        sa.PrimaryKeyConstraint("set_id", "owner", "rater"),
    )
    op.create_index("ix_set_entries_entry", "set_entries", ["entry_id"], unique=True)
    op.create_table(
        "set_answers",
        sa.Column("entry_id", sa.String(length=40), nullable=False),
        sa.Column("game_id", sa.String(length=40), nullable=False),
        sa.Column("given", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("entry_id", "game_id"),
    )
    op.create_table(
        "seen_views",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("game_id", sa.String(length=40), nullable=False),
        sa.Column("seat", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "game_id", "seat"),
    )


def downgrade() -> None:
    for table in ("seen_views", "set_answers", "set_entries", "set_items", "evaluation_sets"):
        op.drop_table(table)
