# mode: full
# Behind the last instruction stands nothing: the jump over it needs something to land on.
	.text
	.globl	f
	.type	f, @function
f:
	mov	$3, %ecx
	repne scasb
