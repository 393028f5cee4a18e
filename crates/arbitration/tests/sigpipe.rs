//! A host that does not ignore SIGPIPE, as hosts in C do not: no write of a domain ends it.

mod support;

use sfi_arbitration::{Policy, Stdio};
use std::os::unix::net::UnixStream;
use support::{BUFFER, Bench};

#[test]
fn no_write_ends_the_host() {
    // SAFETY: the default action needs no handler. This is the only test of the process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let (socket, other) = UnixStream::pair().unwrap();
    drop(other);
    let (reader, pipe) = std::io::pipe().unwrap();
    drop(reader);
    let stdio = Stdio { fds: vec![Some(socket.into()), Some(pipe.into())] };
    let mut bench = Bench::new(Policy::default(), stdio);
    let (buffer, refused) = (bench.at(BUFFER), -i64::from(libc::EPIPE));
    for descriptor in [0, 1] {
        assert_eq!(bench.ask(libc::SYS_write, &[descriptor, buffer, 5]), refused, "{descriptor}");
    }
    // The domain's own pipe without a reader.
    assert_eq!(bench.ask(libc::SYS_pipe, &[buffer]), 0);
    assert_eq!(bench.ask(libc::SYS_close, &[2]), 0);
    assert_eq!(bench.ask(libc::SYS_write, &[3, buffer, 5]), refused);
}
