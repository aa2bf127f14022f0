"""keep who served an answer and what was thought"""

import sqlalchemy as sa
from alembic import op

revision = "8d1f60c3a9e5"
down_revision = "4b8e2d61f7a3"
branch_labels = None
depends_on = None

_COLUMNS = {
    "asked": sa.Text,
    "reasoning_tokens": sa.BigInteger,
    "reported_cost": sa.Float,
    "provider": sa.String,
    "fingerprint": sa.String,
    "reasoning": sa.Text,
}


def upgrade() -> None:
    for name, kind in _COLUMNS.items():
        op.add_column("model_calls", sa.Column(name, kind(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("model_calls", schema=None) as batch_op:
        for name in reversed(_COLUMNS):
            batch_op.drop_column(name)
