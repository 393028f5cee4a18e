//! From pipes to code.

use crate::error::ComposeError;
use crate::function;
use crate::options::Options;
use crate::pipe::Pipe;
use crate::plan::Plan;
use crate::transfer::Transfer;
use sfi_contract::Mode;

impl Transfer {
    /// Composes pipes to a function. No pipes are a copy.
    ///
    /// # Errors
    /// [`ComposeError`] if a pipe is not well formed, if there are too many, or if their gauges do
    /// not fit each other.
    pub fn compose(name: impl Into<String>, pipes: &[Pipe], options: &Options) -> Result<Transfer, ComposeError> {
        if options.mode == Mode::Match {
            return Err(ComposeError::Mode);
        }
        let plan = Plan::new(pipes)?;
        let function = function::emit(&plan, options);
        Ok(Transfer {
            name: name.into(),
            code: function.code,
            roles: function.roles,
            names: pipes.iter().map(|pipe| pipe.name.clone()).collect(),
            registers: plan.registers,
            unit: plan.unit,
            is_vector: function.is_vector,
        })
    }
}
