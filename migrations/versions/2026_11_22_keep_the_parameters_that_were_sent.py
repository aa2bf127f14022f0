"""keep the parameters that were sent"""

import sqlalchemy as sa
from alembic import op

revision = "4b8e2d61f7a3"
down_revision = "c5eee0e88462"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("model_calls", schema=None) as batch_op:
        batch_op.add_column(sa.Column("asked_temperature", sa.Float(), nullable=True))
        batch_op.add_column(sa.Column("asked_max_tokens", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("parameters", sa.Text(), nullable=True))
    # Until now these two were what was asked for. What was sent is not known any more.
    op.execute("UPDATE model_calls SET asked_temperature = temperature, asked_max_tokens = max_tokens")
    with op.batch_alter_table("model_calls", schema=None) as batch_op:
        batch_op.alter_column("asked_temperature", existing_type=sa.Float(), nullable=False)
        batch_op.alter_column("asked_max_tokens", existing_type=sa.Integer(), nullable=False)
        batch_op.alter_column("temperature", existing_type=sa.Float(), nullable=True)
        batch_op.alter_column("max_tokens", existing_type=sa.Integer(), nullable=True)


def downgrade() -> None:
    op.execute("UPDATE model_calls SET temperature = asked_temperature, max_tokens = asked_max_tokens")
    with op.batch_alter_table("model_calls", schema=None) as batch_op:
        batch_op.alter_column("max_tokens", existing_type=sa.Integer(), nullable=False)
        batch_op.alter_column("temperature", existing_type=sa.Float(), nullable=False)
        batch_op.drop_column("parameters")
        batch_op.drop_column("asked_max_tokens")
        batch_op.drop_column("asked_temperature")
