"""Measurements. Their results go to stdout; of the service's log only warnings are written, to stderr."""

import logging

from app.base.logs import configure

configure(logging.WARNING)
