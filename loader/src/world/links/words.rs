//! Numbers by which functions that the host looked up find out that their library is gone.

/// The numbers of a world. Each has an address that stays as long as the world. A library has one
/// of them, and leaves it changed to a later library.
#[derive(Debug, Default)]
pub(crate) struct Words {
    all: Vec<*mut u64>,
    free: Vec<*mut u64>,
}

/// The address of a number, and a proof that it is one of [`Words`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word(*mut u64);

impl Words {
    /// Takes a number for a library.
    pub(crate) fn take(&mut self) -> Word {
        let word = self.free.pop().unwrap_or_else(|| {
            self.all.push(Box::into_raw(Box::new(0)));
            self.all[self.all.len() - 1]
        });
        Word(word)
    }

    /// Changes a number, so that functions are looked up again.
    pub(crate) fn change(&mut self, word: Word) {
        // SAFETY: the number lives as long as this value, and others read it only while they borrow
        // the world.
        unsafe { *word.0 += 1 };
    }

    /// Changes a number and leaves it to a later library.
    pub(crate) fn leave(&mut self, word: Word) {
        self.change(word);
        self.free.push(word.0);
    }
}

impl Word {
    /// Returns the address.
    pub(crate) fn place(self) -> *const u64 {
        self.0
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        for word in &self.all {
            // SAFETY: made by `take` with `Box::into_raw`. Nobody reads a number of a world that is
            // gone, because functions compare the world's number first.
            drop(unsafe { Box::from_raw(*word) });
        }
    }
}
