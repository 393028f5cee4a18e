//! Regions, prepared calls and views that stand while their domains are loaded again, restarted,
//! crash, change their mode, and lose and regain the region: random events in random order.
//!
//! A model holds the bytes of the region, and what each domain may do. Every store is in the region
//! or a fault, every load gives the model's word, and no view shows memory of another domain.

use sfi_contract::Mode;
use sfi_loader::{Access, CallError, DomainSpec, Manage, Prepared, Restart, World};
use sfi_tests::build::object;
use sfi_tests::random::Random;
use sfi_tests::sandbox;
use std::collections::BTreeMap;

const MODES: [Mode; 3] = [Mode::Write, Mode::Full, Mode::Match];
const NAMES: [&str; 3] = ["a", "b", "c"];
const REGION: u64 = 1 << 14;
const EVENTS: usize = 3000;

/// Everything about one domain that the host knows.
struct Side {
    access: Option<Access>,
    /// `peek(at)` and `poke(at, value)`, prepared once in the beginning.
    standing: [Prepared; 2],
    counts: BTreeMap<&'static str, u64>,
}

struct Bench {
    world: World,
    objects: [Vec<u8>; 3],
    sides: Vec<Side>,
    /// The words of the region.
    model: Vec<u64>,
    at: u64,
}

impl Bench {
    fn new() -> Bench {
        let source = sfi_tests::paths::fixture("regions").join("list.c");
        let options = ["-fPIE", "-O2", "-ffreestanding", "-fno-builtin"];
        let plain = object(source.to_str().unwrap(), &options).unwrap();
        let objects = MODES.map(|mode| sandbox::rewrite(&plain, mode).unwrap());
        let mut builder = World::builder().region("r", REGION);
        for (name, at) in NAMES.into_iter().zip(0..) {
            builder = builder.domain(spec(&objects, name, at, Access::ReadWrite));
        }
        let mut world = builder.build().unwrap();
        let prepare = |world: &World, name: &str, function: &str, signature: &str| {
            world.domain(name).unwrap().prepare(function, signature.parse().unwrap()).unwrap()
        };
        let sides = NAMES.map(|name| Side {
            access: Some(Access::ReadWrite),
            standing: [
                prepare(&world, name, "peek", "(int) -> int"),
                prepare(&world, name, "poke", "(int, int) -> void"),
            ],
            counts: BTreeMap::new(),
        });
        let at = world.region_in("a", "r").unwrap().0;
        Bench { objects, sides: sides.into(), model: vec![0; REGION as usize / 8], at, world }
    }

    /// Compares the region with the model.
    fn check(&mut self, what: &str) {
        let mut bytes = vec![0; REGION as usize];
        self.world.region("r").unwrap().read(0, &mut bytes).unwrap();
        let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        assert!(words.eq(self.model.iter().copied()), "{what}: the region has other words");
    }

    /// Makes an event happen to a domain. Returns its name.
    fn event(&mut self, which: usize, random: &mut Random) -> &'static str {
        let name = NAMES[which];
        let word = random.below(self.model.len());
        let (pointer, value) = (self.at + 8 * word as u64, random.next());
        let side = &mut self.sides[which];
        match random.below(12) {
            0 => {
                let access = side.access.unwrap_or(Access::Read);
                let spec = spec(&self.objects, name, random.below(3), access);
                self.world.reload(spec).unwrap();
                // A domain that is loaded again sees what its specification says.
                side.access = self.world.region_in(name, "r").map(|_| access);
                "reload"
            }
            1 => {
                self.world.restart(name).unwrap();
                "restart"
            }
            2 => {
                assert!(matches!(side.standing[0].call(&mut self.world, &[8]), Err(CallError::Fault(_))));
                "crash"
            }
            3 => {
                self.world.make_invisible(name, "r").unwrap();
                side.access = None;
                "hide"
            }
            4 | 5 => {
                let access = random.pick(&[Access::Read, Access::ReadWrite]);
                self.world.make_visible(name, "r", access).unwrap();
                side.access = Some(access);
                "show"
            }
            6..9 => {
                let stored = side.standing[1].call(&mut self.world, &[pointer, value]);
                if side.access == Some(Access::ReadWrite) {
                    assert_eq!(stored, Ok(0));
                    self.model[word] = value;
                    "store"
                } else {
                    assert!(matches!(stored, Err(CallError::Fault(_))), "{stored:x?}");
                    "refused store"
                }
            }
            9 => {
                let loaded = side.standing[0].call(&mut self.world, &[pointer]);
                match (side.access, loaded) {
                    (Some(_), loaded) => assert_eq!(loaded, Ok(self.model[word])),
                    // Loads that are not confined go on while another domain sees the region.
                    (None, Ok(found)) => assert_eq!(found, self.model[word]),
                    (None, Err(error)) => assert!(matches!(error, CallError::Fault(_)), "{error}"),
                }
                "load"
            }
            10 => {
                let [peek, _] = &mut side.standing;
                let room = peek.room(&mut self.world, 64).unwrap();
                // SAFETY: the room is the host's until the next use of the world.
                unsafe { room.cast::<u64>().write(value) };
                assert_eq!(peek.call(&mut self.world, &[room as u64]), Ok(value));
                "room"
            }
            _ => {
                let seen = side.standing[0].view(&mut self.world, pointer, 8);
                assert_eq!(seen.is_ok(), side.access.is_some());
                if let Ok(seen) = seen {
                    // SAFETY: the view is memory of the domain until the next use of the world.
                    assert_eq!(unsafe { seen.cast::<u64>().read() }, self.model[word]);
                }
                "view"
            }
        }
    }
}

fn spec(objects: &[Vec<u8>; 3], name: &str, mode: usize, access: Access) -> DomainSpec {
    let spec = DomainSpec::new(name).mode(MODES[mode]).restart(Restart::Always);
    spec.object("list.o", objects[mode].clone()).shared("reg", "r", access)
}

#[test]
fn random_events() {
    let mut bench = Bench::new();
    let mut random = Random(14);
    for number in 0..EVENTS {
        let which = random.below(NAMES.len());
        let what = bench.event(which, &mut random);
        *bench.sides[which].counts.entry(what).or_default() += 1;
        bench.check(&format!("{number}: {what} of {}", NAMES[which]));
        assert_eq!(bench.world.region_in(NAMES[which], "r").is_some(), bench.sides[which].access.is_some());
    }
    for side in &bench.sides {
        assert_eq!(side.counts.len(), 10, "{:?}", side.counts);
        println!("{:?}", side.counts);
    }
}
