"""find what owners have

Where there was only ever one key, what has no known owner, and what was made without a key, becomes its
own: it reached all of that before.
"""

import sqlalchemy as sa
from alembic import op

revision = "e7a40b9c25d1"
down_revision = "7be2c9d04a61"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("batches", "evaluations"):
        op.execute(
            f"UPDATE {table} SET owner = (SELECT 'key:' || key_id FROM api_keys) "
            "WHERE owner IN ('', 'keyless') AND (SELECT count(*) FROM api_keys) = 1"
        )
    op.create_index("ix_batches_owner", "batches", ["owner", "created_at", "batch_id"])
    taken = sa.text("taken IS NOT NULL")
    op.create_index("ix_games_taken", "games", ["batch_id"], postgresql_where=taken, sqlite_where=taken)


def downgrade() -> None:
    op.drop_index("ix_games_taken", table_name="games")
    op.drop_index("ix_batches_owner", table_name="batches")
