FROM python:3.13-slim

RUN useradd --system --uid 10001 --user-group --no-create-home --home-dir /nonexistent interintent \
    && install -d -o interintent -g interintent /data

WORKDIR /srv/interintent

# The environment first, on hollow packages: it is rebuilt when the lock changes, not with every line of code.
COPY pyproject.toml requirements.lock requirements-runtime.lock README.md LICENSE ./
COPY scripts/install scripts/install
RUN for package in app engine agents evaluators migrations; do mkdir $package; touch $package/__init__.py; done \
    && PIP_NO_CACHE_DIR=1 scripts/install --runtime --prefix /opt/interintent \
    && ln -s /opt/interintent/bin/interintent /usr/local/bin/interintent

# Installed editable, so these are the installed packages.
COPY engine engine
COPY agents agents
COPY evaluators evaluators
COPY migrations migrations
COPY app app
# app/pages/guides is a link to it.
COPY docs docs
# The service runs as a user who may not write here, and must read it whatever the modes in the checkout.
RUN chmod -R a+rX . \
    && /opt/interintent/bin/python -m compileall -q app engine agents evaluators migrations \
    && cd / && interintent --help >/dev/null

USER interintent
ENV DATABASE_URL=sqlite+aiosqlite:////data/interintent.db \
    PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 8000

# The standard library's client: the image has no curl, and this one heeds no proxy setting.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["/opt/interintent/bin/python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8000, timeout=4); c.request('GET', '/livez'); raise SystemExit(c.getresponse().status != 200)"]

# Inside a container the service must listen on every interface, and without a configured key it
# refuses to listen on anything but loopback: start the container with INTERINTENT_API_KEY set.
CMD ["interintent", "serve", "--host", "0.0.0.0", "--port", "8000"]
