//! The command `lacuna`.

fn main() -> std::process::ExitCode {
    lacuna_cli::main()
}
