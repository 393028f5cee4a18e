# Builds the command and runs the demo: Debian's libz.a as a sandboxed codec, and then sabotage.
#
#   docker build -t sfi . && docker run --rm sfi
#
# Domains need memory files and 4 GiB-aligned reservations, no privileges.
FROM rust:1.90-bookworm
RUN apt-get update -qq \
    && apt-get install -qq --yes --no-install-recommends gcc binutils libc6-dev zlib1g-dev musl-dev musl-tools \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /sfi
COPY . .
RUN cargo build --release --locked -p sfi-cli -p xtask && install target/release/sfi /usr/local/bin/
CMD ["cargo", "xtask", "demo"]
