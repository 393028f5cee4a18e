//! Random links and unlinks of libraries in the middle of calls, compared with a model. A function
//! pointer means one function in the life of a domain, or traps. No call comes to other text.

mod common;
use common::{CALL_RAX, assemble, function};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sfi_loader::{
    CallError, DomainSpec, HostCall, HostError, Import, Library, LibraryError, LinkRoom, Linked, Manage, Mode, Pointer,
    TypedFn, World,
};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Libraries, and functions of each.
const LIBRARIES: usize = 5;
const FUNCTIONS: usize = 4;

/// `go` asks the host for function pointers and calls them, until the host gives NULL.
fn app() -> String {
    function("go", &format!("1:\ncall ask\ntest %rax,%rax\nje 2f\n{CALL_RAX}jmp 1b\n2:\nret"))
}

/// Functions that tell the host their number. The first one finds its own code by an array of
/// slots. Each second one goes on with `go`, and so is in the middle of a call while libraries come
/// and go. The last library refers to the first one.
fn library(number: usize) -> Library {
    let tell = |function: usize| format!("mov ${},%edi\ncall tell\n", FUNCTIONS * number + function);
    let pad = format!(".skip {},0x90\n", 16 * (number + 1));
    let text: String = (0..FUNCTIONS)
        .map(|i| {
            let rest = match i {
                1 | 3 => "call go\nret",
                2 if number == 4 => "lea f0_1(%rip),%rax\nlea f4_0(%rip),%rcx\nret",
                _ => "ret",
            };
            let name = format!("f{number}_{i}");
            if i == 0 {
                let jump = "mov $1,%eax\nlea 9f(,%rax,8),%rsi\nand $0xffff8,%esi\njmp *%gs:__sfi_dispatch(%esi)\n";
                let words = format!("9: .quad 1b, 2b\n.rept {number}\n.quad 1b\n.endr\n");
                let body = format!("{jump}1: ud2\n2: {}ret", tell(i));
                return function(&name, &body) + ".section .sfi.slots,\"a\",@progbits\n" + &words;
            }
            function(&name, &(tell(i) + &pad + rest))
        })
        .collect();
    Library::new(format!("l{number}")).object("l.o", assemble(&text))
}

struct Model {
    random: ChaCha20Rng,
    libraries: Vec<Library>,
    linked: Vec<(usize, Linked)>,
    /// The function of each pointer of this life.
    meaning: HashMap<u64, usize>,
    /// The pointers that were asked for since their library was linked the last time. Others trap
    /// until then.
    live: HashSet<u64>,
    /// The function that the next call may come to, and whether it must.
    expected: Option<(usize, bool)>,
    fuel: u32,
    /// Links, unlinks, refused unlinks, calls, and pointers to libraries that were gone.
    counts: [u64; 5],
}

fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Model {
    fn below(&mut self, bound: usize) -> usize {
        self.random.next_u32() as usize % bound
    }

    /// Notes the meaning of a pointer, which never changes.
    fn note(&mut self, pointer: Pointer, function: usize) {
        let known = *self.meaning.entry(pointer.0).or_insert(function);
        assert_eq!(known, function, "a pointer has another meaning");
        self.live.insert(pointer.0);
    }

    fn is_linked(&self, function: usize) -> bool {
        self.linked.iter().any(|(number, _)| *number == function / FUNCTIONS)
    }
}

fn ask(cx: &mut HostCall<'_>, model: &Mutex<Model>) -> Result<u64, HostError> {
    let held = &mut *lock(model);
    for _ in 0..held.below(4) {
        let (number, known) = (held.below(LIBRARIES), held.linked.len());
        match held.below(3) {
            0 => {
                // A strong symbol is linked once, and the last library needs the first one.
                let library = held.libraries[number].clone();
                if let Ok(linked) = cx.link("a", &library) {
                    held.linked.push((number, linked));
                    held.counts[0] += 1;
                }
            }
            1 if !held.linked.is_empty() => {
                let place = held.below(known);
                match cx.unlink(held.linked[place].1) {
                    Ok(()) => {
                        let (gone, _) = held.linked.remove(place);
                        let Model { live, meaning, .. } = held;
                        live.retain(|pointer| meaning[pointer] / FUNCTIONS != gone);
                        held.counts[1] += 1;
                    }
                    Err(LibraryError::Active { .. } | LibraryError::Needed { .. }) => held.counts[2] += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            _ if !held.linked.is_empty() => {
                let (place, function) = (held.below(known), held.below(FUNCTIONS));
                let (number, linked) = held.linked[place];
                let pointer = linked.symbol(cx, &format!("f{number}_{function}")).unwrap();
                held.note(pointer, FUNCTIONS * number + function);
            }
            _ => {}
        }
    }
    if held.fuel == 0 || held.meaning.is_empty() {
        return Ok(0);
    }
    held.fuel -= 1;
    let mut pointers: Vec<u64> = held.meaning.keys().copied().collect();
    pointers.sort_unstable();
    // Pointers to libraries that are gone are rare, because they end the call.
    let (place, gone) = (held.below(pointers.len()), held.below(16) == 0);
    let pointer = pointers[place];
    let function = held.meaning[&pointer];
    if !held.is_linked(function) && !gone {
        return Ok(0);
    }
    let linked = held.is_linked(function);
    held.expected = linked.then(|| (function, held.live.contains(&pointer)));
    held.counts[3 + usize::from(!linked)] += 1;
    Ok(pointer)
}

#[test]
fn pointers_mean_one_function_or_trap() {
    let rounds: u64 = std::env::var("SFI_CHANGES").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let libraries: Vec<Library> = (0..LIBRARIES).map(library).collect();
    let object = assemble(&app());
    let mut all = [0; 5];
    for seed in 0..rounds {
        let mode = if seed.is_multiple_of(2) { Mode::Write } else { Mode::Full };
        // So few slots that they run out.
        let room = LinkRoom { libraries: 4, slots: 512, bytes: 1 << 20 };
        let spec = DomainSpec::new("a").object("a.o", object.clone()).mode(mode).link_room(room);
        let spec = spec.import("ask", Import::host("ask")).import("tell", Import::host("tell"));
        let model = Arc::new(Mutex::new(Model {
            random: ChaCha20Rng::seed_from_u64(seed),
            libraries: libraries.clone(),
            linked: Vec::new(),
            meaning: HashMap::new(),
            live: HashSet::new(),
            expected: None,
            fuel: 0,
            counts: [0; 5],
        }));
        let (asked, told) = (Arc::clone(&model), Arc::clone(&model));
        let tell = move |cx: &mut HostCall<'_>| {
            let mut held = lock(&told);
            let function = cx.arg(0) as usize;
            let expected = held.expected.take().map(|(function, _)| function);
            assert_eq!(expected, Some(function), "another function runs");
            Ok(0)
        };
        let world = World::builder().domain(spec).shared_fn("ask", move |cx| ask(cx, &asked)).shared_fn("tell", tell);
        let mut world = world.build().unwrap();
        let go: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("go").unwrap();
        for _ in 0..150 {
            lock(&model).fuel = 20;
            match go.call(&mut world, ()) {
                Ok(_) => {}
                Err(CallError::Fault(_)) => {
                    let mut held = lock(&model);
                    let failed = held.expected.take().filter(|(_, must)| *must);
                    assert_eq!(failed, None, "seed {seed}: the function did not run");
                    (held.meaning, held.linked, held.live) = (HashMap::new(), Vec::new(), HashSet::new());
                    drop(held);
                    world.restart("a").unwrap();
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        all.iter_mut().zip(lock(&model).counts).for_each(|(all, count)| *all += count);
    }
    println!(
        "{} links, {} unlinks, {} refused ones, {} calls, {} of what is gone",
        all[0], all[1], all[2], all[3], all[4]
    );
    assert!(all.iter().all(|count| *count > 3 * rounds), "{all:?}");
}
