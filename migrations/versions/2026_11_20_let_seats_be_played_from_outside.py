"""let seats be played from outside"""

import sqlalchemy as sa
import sqlmodel
from alembic import op

revision = "a3f1c5d27e90"
down_revision = "7c2e9b41d6a8"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "inbox",
        sa.Column("game_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("request_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("seat", sa.SmallInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("cause", sqlmodel.sql.sqltypes.AutoString(), nullable=True),
        sa.Column("action", sa.Text(), nullable=True),
        sa.Column("thoughts", sa.Text(), nullable=True),
        sa.Column("via", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("receipt", sqlmodel.sql.sqltypes.AutoString(length=32), nullable=False),
        sa.PrimaryKeyConstraint("game_id", "request_id"),
    )
    op.create_table(
        "refusals",
        sa.Column("game_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("request_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("attempt", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("message", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("answer", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("code", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("pointer", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("game_id", "request_id", "attempt"),
    )
    op.create_table(
        "holders",
        sa.Column("game_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("seat", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("conn", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("game_id", "seat"),
    )


def downgrade() -> None:
    op.drop_table("holders")
    op.drop_table("refusals")
    op.drop_table("inbox")
