//! The program of a trainer as its nodes start it.

use lacuna_model::{Launch, Program, TrainerSpec};

/// The environment's name of the file in which loaders find their training.
pub(crate) const LOADERS_FILE: &str = "LACUNA_LOADERS";

/// The program of a trainer as its nodes start it: it finds its loaders, if it may have some.
pub(crate) fn launch(spec: &TrainerSpec) -> Launch {
    let mut launch = spec.launch.clone();
    let file = spec.kinds.loaders().and_then(|_| loaders_file(spec));
    if let (Some(file), Launch::Command(Program { env, .. })) = (file, &mut launch) {
        env.insert(LOADERS_FILE.to_owned(), file);
    }
    launch
}

/// The file in which loaders find their training, if a trainer has a place for it.
pub(crate) fn loaders_file(spec: &TrainerSpec) -> Option<String> {
    let Launch::Command(Program {
        env,
        checkpoint_dir,
        ..
    }) = &spec.launch
    else {
        return None;
    };
    let folder = checkpoint_dir.as_ref();
    let below = folder.map(|folder| format!("{folder}/{}.loaders.json", spec.id));
    env.get(LOADERS_FILE).cloned().or(below)
}
