"""say whether seeds of a set are guessable"""

import sqlalchemy as sa
from alembic import op

revision = "8c27d1f0a6e5"
down_revision = "5e0b7c9d2a14"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Until now, games with given seeds were drawn like any others.
    column = sa.Column("guessable_seeds", sa.Boolean(), nullable=False, server_default=sa.true())
    op.add_column("evaluation_sets", column)


def downgrade() -> None:
    op.drop_column("evaluation_sets", "guessable_seeds")
