//! Options of HiGHS.

/// Options of one solve. A value that HiGHS refuses fails the solve with the option's name, since a
/// refused bound does not hold.
pub(crate) struct Set<'a> {
    highs: &'a mut highs::Model,
    refused: Option<&'static str>,
}

impl<'a> Set<'a> {
    /// The options of all solves: silence, one thread and one seed. So the same model has the same
    /// answer, whatever else the machine does.
    pub(crate) fn new(highs: &'a mut highs::Model) -> Self {
        let set = Self {
            highs,
            refused: None,
        };
        set.to("output_flag", false)
            .to("threads", 1_i32)
            .to("parallel", "off")
            .to("random_seed", 0_i32)
    }

    /// Sets an option.
    pub(crate) fn to(mut self, name: &'static str, value: impl highs::HighsOptionValue) -> Self {
        if self.highs.try_set_option(name, value).is_err() {
            self.refused.get_or_insert(name);
        }
        self
    }

    /// Sets a limit on a count; HiGHS reads its largest number as no limit.
    pub(crate) fn limit(self, name: &'static str, most: u32) -> Self {
        self.to(name, i32::try_from(most).unwrap_or(i32::MAX))
    }

    /// Ends the options; an error names the first refused one.
    pub(crate) fn done(self) -> Result<(), String> {
        let refused = |name: &str| format!("the solver refused the option {name}");
        self.refused.map_or(Ok(()), |name| Err(refused(name)))
    }
}
