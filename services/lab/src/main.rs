//! The command `lacuna-lab`.

fn main() -> std::process::ExitCode {
    lacuna_lab::main()
}
