//! The integration tests, in one binary, with a module for each subject. The README beside this
//! folder lists the promises and the tests that guard them.

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
#[cfg(test)]
mod virtual_cluster;
