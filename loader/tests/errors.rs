//! An error's text has its own part only. Its sources have the rest, each part once.

use sfi_loader::manifest::{Manifest, ManifestError};
use sfi_loader::{
    BindError, BuildError, CallError, HostError, LinkError, LookupError, MapError, MemoryError, PoolError, Signature,
    chain,
};
use std::error::Error;

/// Returns an error for every way in which an error of the loader has a source, and one without.
fn representatives() -> Vec<(Box<dyn Error>, usize)> {
    let errno = std::io::Error::from_raw_os_error(libc::ENOSPC);
    let errno = || rustix::io::Errno::from_io_error(&errno).unwrap();
    let memory = || MapError::Memory { what: "a window".to_owned(), error: errno() };
    let dead = || CallError::Dead { domain: "app".to_owned() };
    let lookup = || LookupError::Domain("app".to_owned());
    let signature = BuildError::Signature {
        domain: "app".to_owned(),
        symbol: "f".to_owned(),
        error: "(what)".parse::<Signature>().unwrap_err(),
    };
    let initialiser = || BuildError::Initialiser { domain: "app".to_owned(), error: Box::new(dead()) };
    let file = Manifest::load("nowhere.toml".as_ref()).unwrap_err();
    assert!(matches!(file, ManifestError::File { .. }));
    let text = Manifest::parse("domains = 1", "sfi.toml".as_ref()).unwrap_err();
    assert!(matches!(text, ManifestError::Text { .. }));
    let source = sfi_verifier::verify(b"text", &Default::default()).unwrap_err();
    let unreadable = LinkError::Unreadable { file: "a.o".to_owned(), source };
    let undefined = LinkError::Undefined { domain: "app".to_owned(), symbols: Vec::new() };
    vec![
        (Box::new(memory()), 1),
        (Box::new(MapError::FiveLevels), 0),
        (Box::new(LinkError::Map(memory())), 1),
        (Box::new(unreadable), 1),
        (Box::new(undefined.clone()), 0),
        (Box::new(BuildError::Link(undefined)), 0),
        (Box::new(BuildError::Map(memory())), 1),
        (Box::new(BuildError::from(lookup())), 0),
        (Box::new(BuildError::Watchdog(std::io::ErrorKind::WouldBlock.into())), 1),
        (Box::new(BuildError::Bind(BindError::Memory(errno()))), 1),
        (Box::new(BuildError::Bind(BindError::Unknown(lookup()))), 0),
        (Box::new(signature), 1),
        (Box::new(initialiser()), 1),
        (Box::new(PoolError::Build(initialiser())), 1),
        (Box::new(dead()), 0),
        (Box::new(HostError::from(dead())), 1),
        (Box::new(MemoryError::ReadOnly { offset: 8 }), 0),
        (Box::new(file), 1),
        (Box::new(text), 1),
    ]
}

#[test]
fn a_chain_says_each_thing_once() {
    for (error, sources) in representatives() {
        let mut all = vec![error.to_string()];
        let mut outer: &dyn Error = &*error;
        while let Some(source) = outer.source() {
            all.push(source.to_string());
            outer = source;
        }
        assert_eq!(all.len(), sources + 1, "{all:?}");
        assert_eq!(chain(&*error), all.join(": "));
        for (place, text) in all.iter().enumerate().skip(1) {
            assert!(!all[..place].iter().any(|outer| outer.contains(text.as_str())), "{all:?}");
        }
    }
}

#[test]
fn a_chain_reads_as_one_sentence() {
    let mut all = representatives().into_iter();
    let (error, _) = all.find(|(error, _)| error.to_string().starts_with("an initialiser")).expect("it is listed");
    let expected = "an initialiser of domain `app` failed: domain `app` is dead since an earlier fault; restart it";
    assert_eq!(chain(&*error), expected);
}
