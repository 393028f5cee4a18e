//! Instructions as text.

use iced_x86::{Formatter, GasFormatter, Instruction};

/// Returns an instruction in AT&T syntax, as gcc and objdump write it.
pub fn text(instruction: &Instruction) -> String {
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_gas_space_after_memory_operand_comma(false);
    options.set_space_after_operand_separator(true);
    options.set_uppercase_hex(false);
    options.set_show_branch_size(false);
    options.set_rip_relative_addresses(true);
    options.set_branch_leading_zeros(false);
    let mut text = String::new();
    formatter.format(instruction, &mut text);
    text
}
