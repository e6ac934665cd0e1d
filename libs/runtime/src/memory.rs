//! The allocator of every program.
//!
//! Services live for months and have peaks: a plan that changes thousands of nodes makes thousands
//! of commands at once. With the C library's allocator a process keeps for good what its highest
//! peak took; jemalloc gives it back. How it is set up says `.cargo/config.toml`.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
