"""keep of which origins sets had games"""

import sqlalchemy as sa
from alembic import op

revision = "3f9a61c8e7d2"
down_revision = "8c27d1f0a6e5"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "set_origins",
        sa.Column("origin", sa.String(length=40), nullable=False),
        sa.Column("set_id", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(["set_id"], ["evaluation_sets.set_id"]),
        sa.PrimaryKeyConstraint("origin", "set_id"),
    )


def downgrade() -> None:
    op.drop_table("set_origins")
