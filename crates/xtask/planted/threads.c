/* Thread locals of the general-dynamic model, whose addresses are used. */
extern _Thread_local int there[4];
_Thread_local int here[4];

int sum(int n) { return here[n & 3] + there[n & 3]; }
int *place(int n) { return &there[n & 3]; }
