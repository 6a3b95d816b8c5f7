//! Things with a number, which is given again when its thing is gone: connections, as epoll names
//! them.

/// Numbered things.
pub(super) struct Slots<T> {
    all: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Its number.
    pub(super) fn add(&mut self, thing: T) -> usize {
        match self.free.pop() {
            Some(number) => {
                self.all[number] = Some(thing);
                number
            }
            None => {
                self.all.push(Some(thing));
                self.all.len() - 1
            }
        }
    }

    pub(super) fn get(&mut self, number: usize) -> Option<&mut T> {
        self.all.get_mut(number)?.as_mut()
    }

    pub(super) fn remove(&mut self, number: usize) -> Option<T> {
        let gone = self.all.get_mut(number)?.take()?;
        self.free.push(number);
        Some(gone)
    }
}
