//! `fixtures/prepared`: a host in C with prepared calls, and calls that its signal handlers end.

mod support;

#[test]
fn prepared_calls() {
    support::host_holds("prepared");
}
