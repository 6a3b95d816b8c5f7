//! What runs left that were killed.

use bytepath_lab::left::{self, Left};

use crate::said::say;

/// Removes what runs left that were killed, and says so; what stays keeps nobody from measuring.
pub(crate) fn undo() {
    let all = match left::undo() {
        Ok(all) => all,
        Err(error) => {
            say(format_args!("bytepath: cannot look for what earlier runs left: {error}"));
            return;
        }
    };
    for Left { path, what, removed } in all {
        let path = path.display();
        match removed {
            Ok(()) => {
                say(format_args!("bytepath: {what} {path}, which a run that was killed had left"))
            }
            Err(why) => say(format_args!(
                "bytepath: {path}, which a run that was killed had left, is not {what}: {why}"
            )),
        }
    }
}
