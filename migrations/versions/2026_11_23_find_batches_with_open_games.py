"""find batches with open games"""

import sqlalchemy as sa
from alembic import op

revision = "d05c7a31fb62"
down_revision = "e91b47d0c5f3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    is_open = sa.text("status IN ('created', 'running', 'suspended')")
    op.create_index("ix_games_open", "games", ["batch_id"], postgresql_where=is_open, sqlite_where=is_open)


def downgrade() -> None:
    op.drop_index("ix_games_open", table_name="games")
