//! The allocator of every program.
//!
//! Services run for months and have peaks: a plan that changes thousands of nodes makes thousands
//! of commands at once. With the C library's allocator a process never returns the memory of its
//! highest peak. jemalloc returns it. Its options are in `.cargo/config.toml`.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
