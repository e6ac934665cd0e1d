//! The integration tests, in one binary. Each module is one subject; the README beside this
//! folder says which promise each test guards.

#[cfg(test)]
mod architecture;
#[cfg(test)]
mod browser;
#[cfg(test)]
mod chaos;
#[cfg(test)]
mod compose;
#[cfg(test)]
mod dashboards;
#[cfg(test)]
mod external;
#[cfg(test)]
mod load;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod security;
#[cfg(test)]
mod support;
#[cfg(test)]
mod upgrade;
