"""keep what judges say of statements"""

import sqlalchemy as sa
import sqlmodel
from alembic import op

revision = "91d4c7f2b6e8"
down_revision = "e5b8d0a94c13"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "statement_judgements",
        sa.Column("game_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("request_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("turn", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("caller", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("rater", sqlmodel.sql.sqltypes.AutoString(length=80), nullable=False),
        sa.Column("grade", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("evaluation_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("statements", sa.JSON(), nullable=False),
        sa.Column("planted", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("game_id", "request_id", "turn", "caller", "rater", "grade"),
    )
    with op.batch_alter_table("statement_judgements", schema=None) as batch_op:
        batch_op.create_index(
            "ix_statement_judgements_evaluation",
            ["evaluation_id", "game_id", "request_id", "turn"],
            unique=False,
        )


def downgrade() -> None:
    with op.batch_alter_table("statement_judgements", schema=None) as batch_op:
        batch_op.drop_index("ix_statement_judgements_evaluation")

    op.drop_table("statement_judgements")
