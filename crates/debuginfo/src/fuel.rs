//! A bound for the work that one object can cause.

/// The rest of a budget. One unit pays for one attribute, row, range or header: tens of
/// nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Fuel(u64);

/// The budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

impl Fuel {
    /// Enough for debug information of some 100 MB. It lasts for about a second.
    pub const DEFAULT: Fuel = Fuel(20_000_000);

    /// Returns a budget of `units`.
    pub const fn new(units: u64) -> Fuel {
        Fuel(units)
    }

    /// Spends units of the budget.
    ///
    /// # Errors
    /// [`Exhausted`] if fewer are left. The budget is then empty.
    pub fn spend(&mut self, units: u64) -> Result<(), Exhausted> {
        match self.0.checked_sub(units) {
            Some(rest) => self.0 = rest,
            None => {
                self.0 = 0;
                return Err(Exhausted);
            }
        }
        Ok(())
    }
}

impl Default for Fuel {
    fn default() -> Self {
        Fuel::DEFAULT
    }
}
