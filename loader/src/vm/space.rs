//! The places of windows and control stacks: the user half of the address space, with four or with
//! five levels of page tables.
//!
//! The kernel gives out an address above 47 bits only on request, so no other memory of the host is
//! there. A domain counts all addresses from its window's base, which is 64 bits wide, or uses the
//! low 32 bits of an address. Apart from the rule that addresses are canonical, nothing requires
//! the upper bits to be zero.

use crate::vm::error::MapError;
use crate::vm::ledger::reserve_at;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;
use sfi_contract::layout::{PAGE_SIZE, WINDOW_SIZE};
use std::io::Write as _;
use std::sync::OnceLock;

/// A choice whether windows are drawn from the 56 bits of five-level paging (Intel's LA57).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum La57 {
    /// Windows lie in 47 bits.
    #[default]
    Never,
    /// Windows lie in 56 bits if the machine and its kernel have them. Otherwise a warning is
    /// printed, once.
    IfAvailable,
    /// Windows lie in 56 bits. Building fails with `SFI-M02` if the machine does not have them.
    Always,
}

/// The addresses of user memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressSpace {
    /// Four levels of page tables: 47 bits.
    Four,
    /// Five levels: 56 bits.
    Five,
}

/// Draws uniformly from `0..bound`, by rejection.
pub(crate) fn draw(rng: &mut ChaCha20Rng, bound: u64) -> u64 {
    assert!(bound > 0, "empty range");
    let limit = u64::MAX - u64::MAX % bound;
    loop {
        let value = rng.next_u64();
        if value < limit {
            return value % bound;
        }
    }
}

/// A borrowed source of random numbers, and the space in which it places one window.
pub(crate) struct Draw<'r> {
    pub rng: &'r mut ChaCha20Rng,
    pub space: AddressSpace,
}

/// A source of random numbers and the space that they place windows in.
pub(crate) struct Places {
    pub rng: ChaCha20Rng,
    pub space: AddressSpace,
}

impl Places {
    /// Lends the source to place one window.
    pub(crate) fn draw(&mut self) -> Draw<'_> {
        Draw { rng: &mut self.rng, space: self.space }
    }
}

impl AddressSpace {
    const fn end(self) -> u64 {
        match self {
            AddressSpace::Four => 1 << 47,
            AddressSpace::Five => 1 << 56,
        }
    }

    /// Returns the number of places for a window: 4 GiB-aligned, not the first one, with a guard
    /// after the last one.
    pub const fn windows(self) -> u64 {
        self.end() / WINDOW_SIZE - 2
    }

    /// Says whether the kernel maps memory in this space.
    pub fn available(self) -> bool {
        static FIVE: OnceLock<bool> = OnceLock::new();
        // No other memory lies in the upper half, because the kernel gives it out only on request.
        let probe = || {
            (1..8).any(|i| {
                let at = (AddressSpace::Five.end() >> 1) + i * WINDOW_SIZE;
                // SAFETY: unmaps the page that was just mapped.
                reserve_at(at, PAGE_SIZE) == Ok(true)
                    && unsafe { rustix::mm::munmap(at as *mut _, PAGE_SIZE as usize) }.is_ok()
            })
        };
        self == AddressSpace::Four || *FIVE.get_or_init(probe)
    }

    /// Draws the number of one of the `size`-aligned places uniformly, neither the first nor the
    /// last one.
    pub(crate) fn draw(self, rng: &mut ChaCha20Rng, size: u64) -> u64 {
        draw(rng, self.end() / size - 2) + 1
    }

    /// Draws the number of a window.
    pub(crate) fn draw_window(self, rng: &mut ChaCha20Rng) -> u64 {
        self.draw(rng, WINDOW_SIZE)
    }
}

impl La57 {
    /// Returns the address space to draw from.
    pub(crate) fn space(self) -> Result<AddressSpace, MapError> {
        self.choose(
            || AddressSpace::Five.available(),
            || {
                static ONCE: std::sync::Once = std::sync::Once::new();
                ONCE.call_once(|| {
                    let _ = writeln!(
                        std::io::stderr(),
                        "warning: no five-level paging here (la57): windows are placed in 47 bits of address"
                    );
                });
            },
        )
    }

    /// Asks whether the machine has five levels only if that matters.
    fn choose(self, available: impl Fn() -> bool, warn: impl Fn()) -> Result<AddressSpace, MapError> {
        match self {
            La57::Never => Ok(AddressSpace::Four),
            _ if available() => Ok(AddressSpace::Five),
            La57::IfAvailable => {
                warn();
                Ok(AddressSpace::Four)
            }
            La57::Always => Err(MapError::FiveLevels),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    /// A size other than a window's.
    const CONTROL_SIZE: u64 = 4 << 20;
    use rand_chacha::rand_core::SeedableRng;
    use std::cell::Cell;

    #[test]
    fn both_spaces_are_drawn_from_evenly() {
        assert_eq!((AddressSpace::Four.windows(), AddressSpace::Five.windows()), (32_766, 16_777_214));
        for (space, bits) in [(AddressSpace::Four, 47), (AddressSpace::Five, 56)] {
            let mut rng = ChaCha20Rng::from_seed([7; 32]);
            for size in [WINDOW_SIZE, CONTROL_SIZE] {
                let (mut eighths, count) = ([0_u32; 8], 80_000);
                for _ in 0..count {
                    let at = space.draw(&mut rng, size) * size;
                    // The guard after it also lies below the end, where non-canonical addresses
                    // begin.
                    assert!(at >= size && at + size < 1 << bits, "{at:#x}");
                    eighths[(at >> (bits - 3)) as usize] += 1;
                }
                // Five standard deviations of a binomial distribution are 468.
                assert!(eighths.iter().all(|n| n.abs_diff(count / 8) < 468), "{eighths:?}");
            }
        }
    }

    #[test]
    fn the_choice() {
        let warned = Cell::new(0);
        let choose = |la57: La57, available| la57.choose(|| available, || warned.set(warned.get() + 1));
        assert_eq!(La57::Never.choose(|| panic!("asked"), || ()).unwrap(), AddressSpace::Four);
        assert_eq!(choose(La57::Never, true).unwrap(), AddressSpace::Four);
        assert_eq!(choose(La57::Always, true).unwrap(), AddressSpace::Five);
        assert_eq!(choose(La57::IfAvailable, true).unwrap(), AddressSpace::Five);
        assert_eq!(choose(La57::Never, false).unwrap(), AddressSpace::Four);
        assert_eq!(warned.get(), 0);
        assert_eq!(choose(La57::IfAvailable, false).unwrap(), AddressSpace::Four);
        assert_eq!(warned.get(), 1);
        assert!(choose(La57::Always, false).unwrap_err().to_string().starts_with("SFI-M02: "));
    }
}
