"""find what owners have"""

import sqlalchemy as sa
from alembic import op

revision = "e7a40b9c25d1"
down_revision = "5c1e7d90a2b6"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_batches_owner", "batches", ["owner", "created_at", "batch_id"])
    taken = sa.text("taken IS NOT NULL")
    op.create_index("ix_games_taken", "games", ["batch_id"], postgresql_where=taken, sqlite_where=taken)


def downgrade() -> None:
    op.drop_index("ix_games_taken", table_name="games")
    op.drop_index("ix_batches_owner", table_name="batches")
