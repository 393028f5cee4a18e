# The relocation of a branch names no symbol.
	.text
	.globl	f
	.type	f, @function
f:
	call	1f
1:	ret
	.reloc	f + 1, R_X86_64_PLT32, -4
