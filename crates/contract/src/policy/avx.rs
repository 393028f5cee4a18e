//! A part of the positive list, see [`super`]. Checked and written by the test `policy_table`.

super::forms! {
    Avx None(0) [] writes() clobbers() {
        VEX_Vzeroupper VEX_Vzeroall
    }
    Avx None(0) [] writes(0) clobbers() {
        VEX_Vmovss_xmm_xmm_xmm VEX_Vmovsd_xmm_xmm_xmm VEX_Vmovss_xmm_xmm_xmm_0F11 VEX_Vmovsd_xmm_xmm_xmm_0F11
        VEX_Vmovhlps_xmm_xmm_xmm VEX_Vmovlhps_xmm_xmm_xmm VEX_Vmovmskps_r32_xmm VEX_Vmovmskps_r64_xmm
        VEX_Vmovmskps_r32_ymm VEX_Vmovmskps_r64_ymm VEX_Vmovmskpd_r32_xmm VEX_Vmovmskpd_r64_xmm VEX_Vmovmskpd_r32_ymm
        VEX_Vmovmskpd_r64_ymm VEX_Vpsrlw_xmm_xmm_imm8 VEX_Vpsrlw_ymm_ymm_imm8 VEX_Vpsraw_xmm_xmm_imm8
        VEX_Vpsraw_ymm_ymm_imm8 VEX_Vpsllw_xmm_xmm_imm8 VEX_Vpsllw_ymm_ymm_imm8 VEX_Vpsrld_xmm_xmm_imm8
        VEX_Vpsrld_ymm_ymm_imm8 VEX_Vpsrad_xmm_xmm_imm8 VEX_Vpsrad_ymm_ymm_imm8 VEX_Vpslld_xmm_xmm_imm8
        VEX_Vpslld_ymm_ymm_imm8 VEX_Vpsrlq_xmm_xmm_imm8 VEX_Vpsrlq_ymm_ymm_imm8 VEX_Vpsrldq_xmm_xmm_imm8
        VEX_Vpsrldq_ymm_ymm_imm8 VEX_Vpsllq_xmm_xmm_imm8 VEX_Vpsllq_ymm_ymm_imm8 VEX_Vpslldq_xmm_xmm_imm8
        VEX_Vpslldq_ymm_ymm_imm8 VEX_Vpextrw_r32_xmm_imm8 VEX_Vpextrw_r64_xmm_imm8 VEX_Vpmovmskb_r32_xmm
        VEX_Vpmovmskb_r64_xmm VEX_Vpmovmskb_r32_ymm VEX_Vpmovmskb_r64_ymm VEX_Vbroadcastss_xmm_xmm
        VEX_Vbroadcastss_ymm_xmm VEX_Vbroadcastsd_ymm_xmm
    }
    Avx Load(1) [] writes() clobbers() {
        VEX_Vucomiss_xmm_xmmm32 VEX_Vucomisd_xmm_xmmm64 VEX_Vcomiss_xmm_xmmm32 VEX_Vcomisd_xmm_xmmm64
        VEX_Vtestps_xmm_xmmm128 VEX_Vtestps_ymm_ymmm256 VEX_Vtestpd_xmm_xmmm128 VEX_Vtestpd_ymm_ymmm256
        VEX_Vptest_xmm_xmmm128 VEX_Vptest_ymm_ymmm256 VEX_Vpcmpestrm_xmm_xmmm128_imm8
        VEX_Vpcmpestrm64_xmm_xmmm128_imm8 VEX_Vpcmpistrm_xmm_xmmm128_imm8
    }
    Avx Load(1) [] writes() clobbers(RCX) {
        VEX_Vpcmpestri_xmm_xmmm128_imm8 VEX_Vpcmpestri64_xmm_xmmm128_imm8 VEX_Vpcmpistri_xmm_xmmm128_imm8
    }
    Avx Load(1) [] writes(0) clobbers() {
        VEX_Vmovups_xmm_xmmm128 VEX_Vmovups_ymm_ymmm256 VEX_Vmovupd_xmm_xmmm128 VEX_Vmovupd_ymm_ymmm256
        VEX_Vmovss_xmm_m32 VEX_Vmovsd_xmm_m64 VEX_Vmovsldup_xmm_xmmm128 VEX_Vmovsldup_ymm_ymmm256
        VEX_Vmovddup_xmm_xmmm64 VEX_Vmovddup_ymm_ymmm256 VEX_Vmovshdup_xmm_xmmm128 VEX_Vmovshdup_ymm_ymmm256
        VEX_Vmovaps_xmm_xmmm128 VEX_Vmovaps_ymm_ymmm256 VEX_Vmovapd_xmm_xmmm128 VEX_Vmovapd_ymm_ymmm256
        VEX_Vcvttss2si_r32_xmmm32 VEX_Vcvttss2si_r64_xmmm32 VEX_Vcvttsd2si_r32_xmmm64 VEX_Vcvttsd2si_r64_xmmm64
        VEX_Vcvtss2si_r32_xmmm32 VEX_Vcvtss2si_r64_xmmm32 VEX_Vcvtsd2si_r32_xmmm64 VEX_Vcvtsd2si_r64_xmmm64
        VEX_Vsqrtps_xmm_xmmm128 VEX_Vsqrtps_ymm_ymmm256 VEX_Vsqrtpd_xmm_xmmm128 VEX_Vsqrtpd_ymm_ymmm256
        VEX_Vrsqrtps_xmm_xmmm128 VEX_Vrsqrtps_ymm_ymmm256 VEX_Vrcpps_xmm_xmmm128 VEX_Vrcpps_ymm_ymmm256
        VEX_Vcvtps2pd_xmm_xmmm64 VEX_Vcvtps2pd_ymm_xmmm128 VEX_Vcvtpd2ps_xmm_xmmm128 VEX_Vcvtpd2ps_xmm_ymmm256
        VEX_Vcvtdq2ps_xmm_xmmm128 VEX_Vcvtdq2ps_ymm_ymmm256 VEX_Vcvtps2dq_xmm_xmmm128 VEX_Vcvtps2dq_ymm_ymmm256
        VEX_Vcvttps2dq_xmm_xmmm128 VEX_Vcvttps2dq_ymm_ymmm256 VEX_Vmovd_xmm_rm32 VEX_Vmovq_xmm_rm64
        VEX_Vmovdqa_xmm_xmmm128 VEX_Vmovdqa_ymm_ymmm256 VEX_Vmovdqu_xmm_xmmm128 VEX_Vmovdqu_ymm_ymmm256
        VEX_Vpshufd_xmm_xmmm128_imm8 VEX_Vpshufd_ymm_ymmm256_imm8 VEX_Vpshufhw_xmm_xmmm128_imm8
        VEX_Vpshufhw_ymm_ymmm256_imm8 VEX_Vpshuflw_xmm_xmmm128_imm8 VEX_Vpshuflw_ymm_ymmm256_imm8 VEX_Vmovq_xmm_xmmm64
        VEX_Vcvttpd2dq_xmm_xmmm128 VEX_Vcvttpd2dq_xmm_ymmm256 VEX_Vcvtdq2pd_xmm_xmmm64 VEX_Vcvtdq2pd_ymm_xmmm128
        VEX_Vcvtpd2dq_xmm_xmmm128 VEX_Vcvtpd2dq_xmm_ymmm256 VEX_Vlddqu_xmm_m128 VEX_Vlddqu_ymm_m256
        VEX_Vcvtph2ps_xmm_xmmm64 VEX_Vcvtph2ps_ymm_xmmm128 VEX_Vbroadcastss_xmm_m32 VEX_Vbroadcastss_ymm_m32
        VEX_Vbroadcastsd_ymm_m64 VEX_Vbroadcastf128_ymm_m128 VEX_Vpabsb_xmm_xmmm128 VEX_Vpabsb_ymm_ymmm256
        VEX_Vpabsw_xmm_xmmm128 VEX_Vpabsw_ymm_ymmm256 VEX_Vpabsd_xmm_xmmm128 VEX_Vpabsd_ymm_ymmm256
        VEX_Vpmovsxbw_xmm_xmmm64 VEX_Vpmovsxbw_ymm_xmmm128 VEX_Vpmovsxbd_xmm_xmmm32 VEX_Vpmovsxbd_ymm_xmmm64
        VEX_Vpmovsxbq_xmm_xmmm16 VEX_Vpmovsxbq_ymm_xmmm32 VEX_Vpmovsxwd_xmm_xmmm64 VEX_Vpmovsxwd_ymm_xmmm128
        VEX_Vpmovsxwq_xmm_xmmm32 VEX_Vpmovsxwq_ymm_xmmm64 VEX_Vpmovsxdq_xmm_xmmm64 VEX_Vpmovsxdq_ymm_xmmm128
        VEX_Vmovntdqa_xmm_m128 VEX_Vmovntdqa_ymm_m256 VEX_Vpmovzxbw_xmm_xmmm64 VEX_Vpmovzxbw_ymm_xmmm128
        VEX_Vpmovzxbd_xmm_xmmm32 VEX_Vpmovzxbd_ymm_xmmm64 VEX_Vpmovzxbq_xmm_xmmm16 VEX_Vpmovzxbq_ymm_xmmm32
        VEX_Vpmovzxwd_xmm_xmmm64 VEX_Vpmovzxwd_ymm_xmmm128 VEX_Vpmovzxwq_xmm_xmmm32 VEX_Vpmovzxwq_ymm_xmmm64
        VEX_Vpmovzxdq_xmm_xmmm64 VEX_Vpmovzxdq_ymm_xmmm128 VEX_Vphminposuw_xmm_xmmm128 VEX_Vpbroadcastd_xmm_xmmm32
        VEX_Vpbroadcastd_ymm_xmmm32 VEX_Vpbroadcastq_xmm_xmmm64 VEX_Vpbroadcastq_ymm_xmmm64
        VEX_Vbroadcasti128_ymm_m128 VEX_Vpbroadcastb_xmm_xmmm8 VEX_Vpbroadcastb_ymm_xmmm8 VEX_Vpbroadcastw_xmm_xmmm16
        VEX_Vpbroadcastw_ymm_xmmm16 VEX_Vaesimc_xmm_xmmm128 VEX_Vpermq_ymm_ymmm256_imm8 VEX_Vpermpd_ymm_ymmm256_imm8
        VEX_Vpermilps_xmm_xmmm128_imm8 VEX_Vpermilps_ymm_ymmm256_imm8 VEX_Vpermilpd_xmm_xmmm128_imm8
        VEX_Vpermilpd_ymm_ymmm256_imm8 VEX_Vroundps_xmm_xmmm128_imm8 VEX_Vroundps_ymm_ymmm256_imm8
        VEX_Vroundpd_xmm_xmmm128_imm8 VEX_Vroundpd_ymm_ymmm256_imm8 VEX_Vaeskeygenassist_xmm_xmmm128_imm8
    }
    Avx Load(2) [] writes(0) clobbers() {
        VEX_Vmovlps_xmm_xmm_m64 VEX_Vmovlpd_xmm_xmm_m64 VEX_Vunpcklps_xmm_xmm_xmmm128 VEX_Vunpcklps_ymm_ymm_ymmm256
        VEX_Vunpcklpd_xmm_xmm_xmmm128 VEX_Vunpcklpd_ymm_ymm_ymmm256 VEX_Vunpckhps_xmm_xmm_xmmm128
        VEX_Vunpckhps_ymm_ymm_ymmm256 VEX_Vunpckhpd_xmm_xmm_xmmm128 VEX_Vunpckhpd_ymm_ymm_ymmm256
        VEX_Vmovhps_xmm_xmm_m64 VEX_Vmovhpd_xmm_xmm_m64 VEX_Vcvtsi2ss_xmm_xmm_rm32 VEX_Vcvtsi2ss_xmm_xmm_rm64
        VEX_Vcvtsi2sd_xmm_xmm_rm32 VEX_Vcvtsi2sd_xmm_xmm_rm64 VEX_Vsqrtss_xmm_xmm_xmmm32 VEX_Vsqrtsd_xmm_xmm_xmmm64
        VEX_Vrsqrtss_xmm_xmm_xmmm32 VEX_Vrcpss_xmm_xmm_xmmm32 VEX_Vandps_xmm_xmm_xmmm128 VEX_Vandps_ymm_ymm_ymmm256
        VEX_Vandpd_xmm_xmm_xmmm128 VEX_Vandpd_ymm_ymm_ymmm256 VEX_Vandnps_xmm_xmm_xmmm128 VEX_Vandnps_ymm_ymm_ymmm256
        VEX_Vandnpd_xmm_xmm_xmmm128 VEX_Vandnpd_ymm_ymm_ymmm256 VEX_Vorps_xmm_xmm_xmmm128 VEX_Vorps_ymm_ymm_ymmm256
        VEX_Vorpd_xmm_xmm_xmmm128 VEX_Vorpd_ymm_ymm_ymmm256 VEX_Vxorps_xmm_xmm_xmmm128 VEX_Vxorps_ymm_ymm_ymmm256
        VEX_Vxorpd_xmm_xmm_xmmm128 VEX_Vxorpd_ymm_ymm_ymmm256 VEX_Vaddps_xmm_xmm_xmmm128 VEX_Vaddps_ymm_ymm_ymmm256
        VEX_Vaddpd_xmm_xmm_xmmm128 VEX_Vaddpd_ymm_ymm_ymmm256 VEX_Vaddss_xmm_xmm_xmmm32 VEX_Vaddsd_xmm_xmm_xmmm64
        VEX_Vmulps_xmm_xmm_xmmm128 VEX_Vmulps_ymm_ymm_ymmm256 VEX_Vmulpd_xmm_xmm_xmmm128 VEX_Vmulpd_ymm_ymm_ymmm256
        VEX_Vmulss_xmm_xmm_xmmm32 VEX_Vmulsd_xmm_xmm_xmmm64 VEX_Vcvtss2sd_xmm_xmm_xmmm32 VEX_Vcvtsd2ss_xmm_xmm_xmmm64
        VEX_Vsubps_xmm_xmm_xmmm128 VEX_Vsubps_ymm_ymm_ymmm256 VEX_Vsubpd_xmm_xmm_xmmm128 VEX_Vsubpd_ymm_ymm_ymmm256
        VEX_Vsubss_xmm_xmm_xmmm32 VEX_Vsubsd_xmm_xmm_xmmm64 VEX_Vminps_xmm_xmm_xmmm128 VEX_Vminps_ymm_ymm_ymmm256
        VEX_Vminpd_xmm_xmm_xmmm128 VEX_Vminpd_ymm_ymm_ymmm256 VEX_Vminss_xmm_xmm_xmmm32 VEX_Vminsd_xmm_xmm_xmmm64
        VEX_Vdivps_xmm_xmm_xmmm128 VEX_Vdivps_ymm_ymm_ymmm256 VEX_Vdivpd_xmm_xmm_xmmm128 VEX_Vdivpd_ymm_ymm_ymmm256
        VEX_Vdivss_xmm_xmm_xmmm32 VEX_Vdivsd_xmm_xmm_xmmm64 VEX_Vmaxps_xmm_xmm_xmmm128 VEX_Vmaxps_ymm_ymm_ymmm256
        VEX_Vmaxpd_xmm_xmm_xmmm128 VEX_Vmaxpd_ymm_ymm_ymmm256 VEX_Vmaxss_xmm_xmm_xmmm32 VEX_Vmaxsd_xmm_xmm_xmmm64
        VEX_Vpunpcklbw_xmm_xmm_xmmm128 VEX_Vpunpcklbw_ymm_ymm_ymmm256 VEX_Vpunpcklwd_xmm_xmm_xmmm128
        VEX_Vpunpcklwd_ymm_ymm_ymmm256 VEX_Vpunpckldq_xmm_xmm_xmmm128 VEX_Vpunpckldq_ymm_ymm_ymmm256
        VEX_Vpacksswb_xmm_xmm_xmmm128 VEX_Vpacksswb_ymm_ymm_ymmm256 VEX_Vpcmpgtb_xmm_xmm_xmmm128
        VEX_Vpcmpgtb_ymm_ymm_ymmm256 VEX_Vpcmpgtw_xmm_xmm_xmmm128 VEX_Vpcmpgtw_ymm_ymm_ymmm256
        VEX_Vpcmpgtd_xmm_xmm_xmmm128 VEX_Vpcmpgtd_ymm_ymm_ymmm256 VEX_Vpackuswb_xmm_xmm_xmmm128
        VEX_Vpackuswb_ymm_ymm_ymmm256 VEX_Vpunpckhbw_xmm_xmm_xmmm128 VEX_Vpunpckhbw_ymm_ymm_ymmm256
        VEX_Vpunpckhwd_xmm_xmm_xmmm128 VEX_Vpunpckhwd_ymm_ymm_ymmm256 VEX_Vpunpckhdq_xmm_xmm_xmmm128
        VEX_Vpunpckhdq_ymm_ymm_ymmm256 VEX_Vpackssdw_xmm_xmm_xmmm128 VEX_Vpackssdw_ymm_ymm_ymmm256
        VEX_Vpunpcklqdq_xmm_xmm_xmmm128 VEX_Vpunpcklqdq_ymm_ymm_ymmm256 VEX_Vpunpckhqdq_xmm_xmm_xmmm128
        VEX_Vpunpckhqdq_ymm_ymm_ymmm256 VEX_Vpcmpeqb_xmm_xmm_xmmm128 VEX_Vpcmpeqb_ymm_ymm_ymmm256
        VEX_Vpcmpeqw_xmm_xmm_xmmm128 VEX_Vpcmpeqw_ymm_ymm_ymmm256 VEX_Vpcmpeqd_xmm_xmm_xmmm128
        VEX_Vpcmpeqd_ymm_ymm_ymmm256 VEX_Vhaddpd_xmm_xmm_xmmm128 VEX_Vhaddpd_ymm_ymm_ymmm256
        VEX_Vhaddps_xmm_xmm_xmmm128 VEX_Vhaddps_ymm_ymm_ymmm256 VEX_Vhsubpd_xmm_xmm_xmmm128
        VEX_Vhsubpd_ymm_ymm_ymmm256 VEX_Vhsubps_xmm_xmm_xmmm128 VEX_Vhsubps_ymm_ymm_ymmm256
        VEX_Vcmpps_xmm_xmm_xmmm128_imm8 VEX_Vcmpps_ymm_ymm_ymmm256_imm8 VEX_Vcmppd_xmm_xmm_xmmm128_imm8
        VEX_Vcmppd_ymm_ymm_ymmm256_imm8 VEX_Vcmpss_xmm_xmm_xmmm32_imm8 VEX_Vcmpsd_xmm_xmm_xmmm64_imm8
        VEX_Vpinsrw_xmm_xmm_r32m16_imm8 VEX_Vpinsrw_xmm_xmm_r64m16_imm8 VEX_Vshufps_xmm_xmm_xmmm128_imm8
        VEX_Vshufps_ymm_ymm_ymmm256_imm8 VEX_Vshufpd_xmm_xmm_xmmm128_imm8 VEX_Vshufpd_ymm_ymm_ymmm256_imm8
        VEX_Vaddsubpd_xmm_xmm_xmmm128 VEX_Vaddsubpd_ymm_ymm_ymmm256 VEX_Vaddsubps_xmm_xmm_xmmm128
        VEX_Vaddsubps_ymm_ymm_ymmm256 VEX_Vpsrlw_xmm_xmm_xmmm128 VEX_Vpsrlw_ymm_ymm_xmmm128 VEX_Vpsrld_xmm_xmm_xmmm128
        VEX_Vpsrld_ymm_ymm_xmmm128 VEX_Vpsrlq_xmm_xmm_xmmm128 VEX_Vpsrlq_ymm_ymm_xmmm128 VEX_Vpaddq_xmm_xmm_xmmm128
        VEX_Vpaddq_ymm_ymm_ymmm256 VEX_Vpmullw_xmm_xmm_xmmm128 VEX_Vpmullw_ymm_ymm_ymmm256
        VEX_Vpsubusb_xmm_xmm_xmmm128 VEX_Vpsubusb_ymm_ymm_ymmm256 VEX_Vpsubusw_xmm_xmm_xmmm128
        VEX_Vpsubusw_ymm_ymm_ymmm256 VEX_Vpminub_xmm_xmm_xmmm128 VEX_Vpminub_ymm_ymm_ymmm256 VEX_Vpand_xmm_xmm_xmmm128
        VEX_Vpand_ymm_ymm_ymmm256 VEX_Vpaddusb_xmm_xmm_xmmm128 VEX_Vpaddusb_ymm_ymm_ymmm256
        VEX_Vpaddusw_xmm_xmm_xmmm128 VEX_Vpaddusw_ymm_ymm_ymmm256 VEX_Vpmaxub_xmm_xmm_xmmm128
        VEX_Vpmaxub_ymm_ymm_ymmm256 VEX_Vpandn_xmm_xmm_xmmm128 VEX_Vpandn_ymm_ymm_ymmm256 VEX_Vpavgb_xmm_xmm_xmmm128
        VEX_Vpavgb_ymm_ymm_ymmm256 VEX_Vpsraw_xmm_xmm_xmmm128 VEX_Vpsraw_ymm_ymm_xmmm128 VEX_Vpsrad_xmm_xmm_xmmm128
        VEX_Vpsrad_ymm_ymm_xmmm128 VEX_Vpavgw_xmm_xmm_xmmm128 VEX_Vpavgw_ymm_ymm_ymmm256 VEX_Vpmulhuw_xmm_xmm_xmmm128
        VEX_Vpmulhuw_ymm_ymm_ymmm256 VEX_Vpmulhw_xmm_xmm_xmmm128 VEX_Vpmulhw_ymm_ymm_ymmm256
        VEX_Vpsubsb_xmm_xmm_xmmm128 VEX_Vpsubsb_ymm_ymm_ymmm256 VEX_Vpsubsw_xmm_xmm_xmmm128
        VEX_Vpsubsw_ymm_ymm_ymmm256 VEX_Vpminsw_xmm_xmm_xmmm128 VEX_Vpminsw_ymm_ymm_ymmm256 VEX_Vpor_xmm_xmm_xmmm128
        VEX_Vpor_ymm_ymm_ymmm256 VEX_Vpaddsb_xmm_xmm_xmmm128 VEX_Vpaddsb_ymm_ymm_ymmm256 VEX_Vpaddsw_xmm_xmm_xmmm128
        VEX_Vpaddsw_ymm_ymm_ymmm256 VEX_Vpmaxsw_xmm_xmm_xmmm128 VEX_Vpmaxsw_ymm_ymm_ymmm256 VEX_Vpxor_xmm_xmm_xmmm128
        VEX_Vpxor_ymm_ymm_ymmm256 VEX_Vpsllw_xmm_xmm_xmmm128 VEX_Vpsllw_ymm_ymm_xmmm128 VEX_Vpslld_xmm_xmm_xmmm128
        VEX_Vpslld_ymm_ymm_xmmm128 VEX_Vpsllq_xmm_xmm_xmmm128 VEX_Vpsllq_ymm_ymm_xmmm128 VEX_Vpmuludq_xmm_xmm_xmmm128
        VEX_Vpmuludq_ymm_ymm_ymmm256 VEX_Vpmaddwd_xmm_xmm_xmmm128 VEX_Vpmaddwd_ymm_ymm_ymmm256
        VEX_Vpsadbw_xmm_xmm_xmmm128 VEX_Vpsadbw_ymm_ymm_ymmm256 VEX_Vpsubb_xmm_xmm_xmmm128 VEX_Vpsubb_ymm_ymm_ymmm256
        VEX_Vpsubw_xmm_xmm_xmmm128 VEX_Vpsubw_ymm_ymm_ymmm256 VEX_Vpsubd_xmm_xmm_xmmm128 VEX_Vpsubd_ymm_ymm_ymmm256
        VEX_Vpsubq_xmm_xmm_xmmm128 VEX_Vpsubq_ymm_ymm_ymmm256 VEX_Vpaddb_xmm_xmm_xmmm128 VEX_Vpaddb_ymm_ymm_ymmm256
        VEX_Vpaddw_xmm_xmm_xmmm128 VEX_Vpaddw_ymm_ymm_ymmm256 VEX_Vpaddd_xmm_xmm_xmmm128 VEX_Vpaddd_ymm_ymm_ymmm256
        VEX_Vpshufb_xmm_xmm_xmmm128 VEX_Vpshufb_ymm_ymm_ymmm256 VEX_Vphaddw_xmm_xmm_xmmm128
        VEX_Vphaddw_ymm_ymm_ymmm256 VEX_Vphaddd_xmm_xmm_xmmm128 VEX_Vphaddd_ymm_ymm_ymmm256
        VEX_Vphaddsw_xmm_xmm_xmmm128 VEX_Vphaddsw_ymm_ymm_ymmm256 VEX_Vpmaddubsw_xmm_xmm_xmmm128
        VEX_Vpmaddubsw_ymm_ymm_ymmm256 VEX_Vphsubw_xmm_xmm_xmmm128 VEX_Vphsubw_ymm_ymm_ymmm256
        VEX_Vphsubd_xmm_xmm_xmmm128 VEX_Vphsubd_ymm_ymm_ymmm256 VEX_Vphsubsw_xmm_xmm_xmmm128
        VEX_Vphsubsw_ymm_ymm_ymmm256 VEX_Vpsignb_xmm_xmm_xmmm128 VEX_Vpsignb_ymm_ymm_ymmm256
        VEX_Vpsignw_xmm_xmm_xmmm128 VEX_Vpsignw_ymm_ymm_ymmm256 VEX_Vpsignd_xmm_xmm_xmmm128
        VEX_Vpsignd_ymm_ymm_ymmm256 VEX_Vpmulhrsw_xmm_xmm_xmmm128 VEX_Vpmulhrsw_ymm_ymm_ymmm256
        VEX_Vpermilps_xmm_xmm_xmmm128 VEX_Vpermilps_ymm_ymm_ymmm256 VEX_Vpermilpd_xmm_xmm_xmmm128
        VEX_Vpermilpd_ymm_ymm_ymmm256 VEX_Vpermps_ymm_ymm_ymmm256 VEX_Vpmuldq_xmm_xmm_xmmm128
        VEX_Vpmuldq_ymm_ymm_ymmm256 VEX_Vpcmpeqq_xmm_xmm_xmmm128 VEX_Vpcmpeqq_ymm_ymm_ymmm256
        VEX_Vpackusdw_xmm_xmm_xmmm128 VEX_Vpackusdw_ymm_ymm_ymmm256 VEX_Vpermd_ymm_ymm_ymmm256
        VEX_Vpcmpgtq_xmm_xmm_xmmm128 VEX_Vpcmpgtq_ymm_ymm_ymmm256 VEX_Vpminsb_xmm_xmm_xmmm128
        VEX_Vpminsb_ymm_ymm_ymmm256 VEX_Vpminsd_xmm_xmm_xmmm128 VEX_Vpminsd_ymm_ymm_ymmm256
        VEX_Vpminuw_xmm_xmm_xmmm128 VEX_Vpminuw_ymm_ymm_ymmm256 VEX_Vpminud_xmm_xmm_xmmm128
        VEX_Vpminud_ymm_ymm_ymmm256 VEX_Vpmaxsb_xmm_xmm_xmmm128 VEX_Vpmaxsb_ymm_ymm_ymmm256
        VEX_Vpmaxsd_xmm_xmm_xmmm128 VEX_Vpmaxsd_ymm_ymm_ymmm256 VEX_Vpmaxuw_xmm_xmm_xmmm128
        VEX_Vpmaxuw_ymm_ymm_ymmm256 VEX_Vpmaxud_xmm_xmm_xmmm128 VEX_Vpmaxud_ymm_ymm_ymmm256
        VEX_Vpmulld_xmm_xmm_xmmm128 VEX_Vpmulld_ymm_ymm_ymmm256 VEX_Vpsrlvd_xmm_xmm_xmmm128
        VEX_Vpsrlvd_ymm_ymm_ymmm256 VEX_Vpsrlvq_xmm_xmm_xmmm128 VEX_Vpsrlvq_ymm_ymm_ymmm256
        VEX_Vpsravd_xmm_xmm_xmmm128 VEX_Vpsravd_ymm_ymm_ymmm256 VEX_Vpsllvd_xmm_xmm_xmmm128
        VEX_Vpsllvd_ymm_ymm_ymmm256 VEX_Vpsllvq_xmm_xmm_xmmm128 VEX_Vpsllvq_ymm_ymm_ymmm256
        VEX_Vfmaddsub132ps_xmm_xmm_xmmm128 VEX_Vfmaddsub132ps_ymm_ymm_ymmm256 VEX_Vfmaddsub132pd_xmm_xmm_xmmm128
        VEX_Vfmaddsub132pd_ymm_ymm_ymmm256 VEX_Vfmsubadd132ps_xmm_xmm_xmmm128 VEX_Vfmsubadd132ps_ymm_ymm_ymmm256
        VEX_Vfmsubadd132pd_xmm_xmm_xmmm128 VEX_Vfmsubadd132pd_ymm_ymm_ymmm256 VEX_Vfmadd132ps_xmm_xmm_xmmm128
        VEX_Vfmadd132ps_ymm_ymm_ymmm256 VEX_Vfmadd132pd_xmm_xmm_xmmm128 VEX_Vfmadd132pd_ymm_ymm_ymmm256
        VEX_Vfmadd132ss_xmm_xmm_xmmm32 VEX_Vfmadd132sd_xmm_xmm_xmmm64 VEX_Vfmsub132ps_xmm_xmm_xmmm128
        VEX_Vfmsub132ps_ymm_ymm_ymmm256 VEX_Vfmsub132pd_xmm_xmm_xmmm128 VEX_Vfmsub132pd_ymm_ymm_ymmm256
        VEX_Vfmsub132ss_xmm_xmm_xmmm32 VEX_Vfmsub132sd_xmm_xmm_xmmm64 VEX_Vfnmadd132ps_xmm_xmm_xmmm128
        VEX_Vfnmadd132ps_ymm_ymm_ymmm256 VEX_Vfnmadd132pd_xmm_xmm_xmmm128 VEX_Vfnmadd132pd_ymm_ymm_ymmm256
        VEX_Vfnmadd132ss_xmm_xmm_xmmm32 VEX_Vfnmadd132sd_xmm_xmm_xmmm64 VEX_Vfnmsub132ps_xmm_xmm_xmmm128
        VEX_Vfnmsub132ps_ymm_ymm_ymmm256 VEX_Vfnmsub132pd_xmm_xmm_xmmm128 VEX_Vfnmsub132pd_ymm_ymm_ymmm256
        VEX_Vfnmsub132ss_xmm_xmm_xmmm32 VEX_Vfnmsub132sd_xmm_xmm_xmmm64 VEX_Vfmaddsub213ps_xmm_xmm_xmmm128
        VEX_Vfmaddsub213ps_ymm_ymm_ymmm256 VEX_Vfmaddsub213pd_xmm_xmm_xmmm128 VEX_Vfmaddsub213pd_ymm_ymm_ymmm256
        VEX_Vfmsubadd213ps_xmm_xmm_xmmm128 VEX_Vfmsubadd213ps_ymm_ymm_ymmm256 VEX_Vfmsubadd213pd_xmm_xmm_xmmm128
        VEX_Vfmsubadd213pd_ymm_ymm_ymmm256 VEX_Vfmadd213ps_xmm_xmm_xmmm128 VEX_Vfmadd213ps_ymm_ymm_ymmm256
        VEX_Vfmadd213pd_xmm_xmm_xmmm128 VEX_Vfmadd213pd_ymm_ymm_ymmm256 VEX_Vfmadd213ss_xmm_xmm_xmmm32
        VEX_Vfmadd213sd_xmm_xmm_xmmm64 VEX_Vfmsub213ps_xmm_xmm_xmmm128 VEX_Vfmsub213ps_ymm_ymm_ymmm256
        VEX_Vfmsub213pd_xmm_xmm_xmmm128 VEX_Vfmsub213pd_ymm_ymm_ymmm256 VEX_Vfmsub213ss_xmm_xmm_xmmm32
        VEX_Vfmsub213sd_xmm_xmm_xmmm64 VEX_Vfnmadd213ps_xmm_xmm_xmmm128 VEX_Vfnmadd213ps_ymm_ymm_ymmm256
        VEX_Vfnmadd213pd_xmm_xmm_xmmm128 VEX_Vfnmadd213pd_ymm_ymm_ymmm256 VEX_Vfnmadd213ss_xmm_xmm_xmmm32
        VEX_Vfnmadd213sd_xmm_xmm_xmmm64 VEX_Vfnmsub213ps_xmm_xmm_xmmm128 VEX_Vfnmsub213ps_ymm_ymm_ymmm256
        VEX_Vfnmsub213pd_xmm_xmm_xmmm128 VEX_Vfnmsub213pd_ymm_ymm_ymmm256 VEX_Vfnmsub213ss_xmm_xmm_xmmm32
        VEX_Vfnmsub213sd_xmm_xmm_xmmm64 VEX_Vfmaddsub231ps_xmm_xmm_xmmm128 VEX_Vfmaddsub231ps_ymm_ymm_ymmm256
        VEX_Vfmaddsub231pd_xmm_xmm_xmmm128 VEX_Vfmaddsub231pd_ymm_ymm_ymmm256 VEX_Vfmsubadd231ps_xmm_xmm_xmmm128
        VEX_Vfmsubadd231ps_ymm_ymm_ymmm256 VEX_Vfmsubadd231pd_xmm_xmm_xmmm128 VEX_Vfmsubadd231pd_ymm_ymm_ymmm256
        VEX_Vfmadd231ps_xmm_xmm_xmmm128 VEX_Vfmadd231ps_ymm_ymm_ymmm256 VEX_Vfmadd231pd_xmm_xmm_xmmm128
        VEX_Vfmadd231pd_ymm_ymm_ymmm256 VEX_Vfmadd231ss_xmm_xmm_xmmm32 VEX_Vfmadd231sd_xmm_xmm_xmmm64
        VEX_Vfmsub231ps_xmm_xmm_xmmm128 VEX_Vfmsub231ps_ymm_ymm_ymmm256 VEX_Vfmsub231pd_xmm_xmm_xmmm128
        VEX_Vfmsub231pd_ymm_ymm_ymmm256 VEX_Vfmsub231ss_xmm_xmm_xmmm32 VEX_Vfmsub231sd_xmm_xmm_xmmm64
        VEX_Vfnmadd231ps_xmm_xmm_xmmm128 VEX_Vfnmadd231ps_ymm_ymm_ymmm256 VEX_Vfnmadd231pd_xmm_xmm_xmmm128
        VEX_Vfnmadd231pd_ymm_ymm_ymmm256 VEX_Vfnmadd231ss_xmm_xmm_xmmm32 VEX_Vfnmadd231sd_xmm_xmm_xmmm64
        VEX_Vfnmsub231ps_xmm_xmm_xmmm128 VEX_Vfnmsub231ps_ymm_ymm_ymmm256 VEX_Vfnmsub231pd_xmm_xmm_xmmm128
        VEX_Vfnmsub231pd_ymm_ymm_ymmm256 VEX_Vfnmsub231ss_xmm_xmm_xmmm32 VEX_Vfnmsub231sd_xmm_xmm_xmmm64
        VEX_Vgf2p8mulb_xmm_xmm_xmmm128 VEX_Vgf2p8mulb_ymm_ymm_ymmm256 VEX_Vaesenc_xmm_xmm_xmmm128
        VEX_Vaesenc_ymm_ymm_ymmm256 VEX_Vaesenclast_xmm_xmm_xmmm128 VEX_Vaesenclast_ymm_ymm_ymmm256
        VEX_Vaesdec_xmm_xmm_xmmm128 VEX_Vaesdec_ymm_ymm_ymmm256 VEX_Vaesdeclast_xmm_xmm_xmmm128
        VEX_Vaesdeclast_ymm_ymm_ymmm256 VEX_Vpblendd_xmm_xmm_xmmm128_imm8 VEX_Vpblendd_ymm_ymm_ymmm256_imm8
        VEX_Vperm2f128_ymm_ymm_ymmm256_imm8 VEX_Vroundss_xmm_xmm_xmmm32_imm8 VEX_Vroundsd_xmm_xmm_xmmm64_imm8
        VEX_Vblendps_xmm_xmm_xmmm128_imm8 VEX_Vblendps_ymm_ymm_ymmm256_imm8 VEX_Vblendpd_xmm_xmm_xmmm128_imm8
        VEX_Vblendpd_ymm_ymm_ymmm256_imm8 VEX_Vpblendw_xmm_xmm_xmmm128_imm8 VEX_Vpblendw_ymm_ymm_ymmm256_imm8
        VEX_Vpalignr_xmm_xmm_xmmm128_imm8 VEX_Vpalignr_ymm_ymm_ymmm256_imm8 VEX_Vinsertf128_ymm_ymm_xmmm128_imm8
        VEX_Vpinsrb_xmm_xmm_r32m8_imm8 VEX_Vpinsrb_xmm_xmm_r64m8_imm8 VEX_Vinsertps_xmm_xmm_xmmm32_imm8
        VEX_Vpinsrd_xmm_xmm_rm32_imm8 VEX_Vpinsrq_xmm_xmm_rm64_imm8 VEX_Vinserti128_ymm_ymm_xmmm128_imm8
        VEX_Vdpps_xmm_xmm_xmmm128_imm8 VEX_Vdpps_ymm_ymm_ymmm256_imm8 VEX_Vdppd_xmm_xmm_xmmm128_imm8
        VEX_Vmpsadbw_xmm_xmm_xmmm128_imm8 VEX_Vmpsadbw_ymm_ymm_ymmm256_imm8 VEX_Vpclmulqdq_xmm_xmm_xmmm128_imm8
        VEX_Vpclmulqdq_ymm_ymm_ymmm256_imm8 VEX_Vperm2i128_ymm_ymm_ymmm256_imm8 VEX_Vblendvps_xmm_xmm_xmmm128_xmm
        VEX_Vblendvps_ymm_ymm_ymmm256_ymm VEX_Vblendvpd_xmm_xmm_xmmm128_xmm VEX_Vblendvpd_ymm_ymm_ymmm256_ymm
        VEX_Vpblendvb_xmm_xmm_xmmm128_xmm VEX_Vpblendvb_ymm_ymm_ymmm256_ymm VEX_Vfmaddsubps_xmm_xmm_xmmm128_xmm
        VEX_Vfmaddsubps_ymm_ymm_ymmm256_ymm VEX_Vfmaddsubpd_xmm_xmm_xmmm128_xmm VEX_Vfmaddsubpd_ymm_ymm_ymmm256_ymm
        VEX_Vfmsubaddps_xmm_xmm_xmmm128_xmm VEX_Vfmsubaddps_ymm_ymm_ymmm256_ymm VEX_Vfmsubaddpd_xmm_xmm_xmmm128_xmm
        VEX_Vfmsubaddpd_ymm_ymm_ymmm256_ymm VEX_Vfmaddps_xmm_xmm_xmmm128_xmm VEX_Vfmaddps_ymm_ymm_ymmm256_ymm
        VEX_Vfmaddpd_xmm_xmm_xmmm128_xmm VEX_Vfmaddpd_ymm_ymm_ymmm256_ymm VEX_Vfmaddss_xmm_xmm_xmmm32_xmm
        VEX_Vfmaddsd_xmm_xmm_xmmm64_xmm VEX_Vfmsubps_xmm_xmm_xmmm128_xmm VEX_Vfmsubps_ymm_ymm_ymmm256_ymm
        VEX_Vfmsubpd_xmm_xmm_xmmm128_xmm VEX_Vfmsubpd_ymm_ymm_ymmm256_ymm VEX_Vfmsubss_xmm_xmm_xmmm32_xmm
        VEX_Vfmsubsd_xmm_xmm_xmmm64_xmm VEX_Vfnmaddps_xmm_xmm_xmmm128_xmm VEX_Vfnmaddps_ymm_ymm_ymmm256_ymm
        VEX_Vfnmaddpd_xmm_xmm_xmmm128_xmm VEX_Vfnmaddpd_ymm_ymm_ymmm256_ymm VEX_Vfnmaddss_xmm_xmm_xmmm32_xmm
        VEX_Vfnmaddsd_xmm_xmm_xmmm64_xmm VEX_Vfnmsubps_xmm_xmm_xmmm128_xmm VEX_Vfnmsubps_ymm_ymm_ymmm256_ymm
        VEX_Vfnmsubpd_xmm_xmm_xmmm128_xmm VEX_Vfnmsubpd_ymm_ymm_ymmm256_ymm VEX_Vfnmsubss_xmm_xmm_xmmm32_xmm
        VEX_Vfnmsubsd_xmm_xmm_xmmm64_xmm VEX_Vgf2p8affineqb_xmm_xmm_xmmm128_imm8
        VEX_Vgf2p8affineqb_ymm_ymm_ymmm256_imm8 VEX_Vgf2p8affineinvqb_xmm_xmm_xmmm128_imm8
        VEX_Vgf2p8affineinvqb_ymm_ymm_ymmm256_imm8 VEX_Vpdpbusd_xmm_xmm_xmmm128 VEX_Vpdpbusd_ymm_ymm_ymmm256
        VEX_Vpdpbusds_xmm_xmm_xmmm128 VEX_Vpdpbusds_ymm_ymm_ymmm256 VEX_Vpdpwssd_xmm_xmm_xmmm128
        VEX_Vpdpwssd_ymm_ymm_ymmm256 VEX_Vpdpwssds_xmm_xmm_xmmm128 VEX_Vpdpwssds_ymm_ymm_ymmm256
    }
    Avx Load(3) [] writes(0) clobbers() {
        VEX_Vfmaddsubps_xmm_xmm_xmm_xmmm128 VEX_Vfmaddsubps_ymm_ymm_ymm_ymmm256 VEX_Vfmaddsubpd_xmm_xmm_xmm_xmmm128
        VEX_Vfmaddsubpd_ymm_ymm_ymm_ymmm256 VEX_Vfmsubaddps_xmm_xmm_xmm_xmmm128 VEX_Vfmsubaddps_ymm_ymm_ymm_ymmm256
        VEX_Vfmsubaddpd_xmm_xmm_xmm_xmmm128 VEX_Vfmsubaddpd_ymm_ymm_ymm_ymmm256 VEX_Vfmaddps_xmm_xmm_xmm_xmmm128
        VEX_Vfmaddps_ymm_ymm_ymm_ymmm256 VEX_Vfmaddpd_xmm_xmm_xmm_xmmm128 VEX_Vfmaddpd_ymm_ymm_ymm_ymmm256
        VEX_Vfmaddss_xmm_xmm_xmm_xmmm32 VEX_Vfmaddsd_xmm_xmm_xmm_xmmm64 VEX_Vfmsubps_xmm_xmm_xmm_xmmm128
        VEX_Vfmsubps_ymm_ymm_ymm_ymmm256 VEX_Vfmsubpd_xmm_xmm_xmm_xmmm128 VEX_Vfmsubpd_ymm_ymm_ymm_ymmm256
        VEX_Vfmsubss_xmm_xmm_xmm_xmmm32 VEX_Vfmsubsd_xmm_xmm_xmm_xmmm64 VEX_Vfnmaddps_xmm_xmm_xmm_xmmm128
        VEX_Vfnmaddps_ymm_ymm_ymm_ymmm256 VEX_Vfnmaddpd_xmm_xmm_xmm_xmmm128 VEX_Vfnmaddpd_ymm_ymm_ymm_ymmm256
        VEX_Vfnmaddss_xmm_xmm_xmm_xmmm32 VEX_Vfnmaddsd_xmm_xmm_xmm_xmmm64 VEX_Vfnmsubps_xmm_xmm_xmm_xmmm128
        VEX_Vfnmsubps_ymm_ymm_ymm_ymmm256 VEX_Vfnmsubpd_xmm_xmm_xmm_xmmm128 VEX_Vfnmsubpd_ymm_ymm_ymm_ymmm256
        VEX_Vfnmsubss_xmm_xmm_xmm_xmmm32 VEX_Vfnmsubsd_xmm_xmm_xmm_xmmm64
    }
    Avx Store(0) [] writes() clobbers() {
        VEX_Vmovss_m32_xmm VEX_Vmovsd_m64_xmm VEX_Vmovlps_m64_xmm VEX_Vmovlpd_m64_xmm VEX_Vmovhps_m64_xmm
        VEX_Vmovhpd_m64_xmm VEX_Vmovntps_m128_xmm VEX_Vmovntps_m256_ymm VEX_Vmovntpd_m128_xmm VEX_Vmovntpd_m256_ymm
        VEX_Vmovntdq_m128_xmm VEX_Vmovntdq_m256_ymm VEX_Vmaskmovps_m128_xmm_xmm VEX_Vmaskmovps_m256_ymm_ymm
        VEX_Vmaskmovpd_m128_xmm_xmm VEX_Vmaskmovpd_m256_ymm_ymm VEX_Vpmaskmovd_m128_xmm_xmm
        VEX_Vpmaskmovd_m256_ymm_ymm VEX_Vpmaskmovq_m128_xmm_xmm VEX_Vpmaskmovq_m256_ymm_ymm
    }
    Avx Store(0) [] writes(0) clobbers() {
        VEX_Vmovups_xmmm128_xmm VEX_Vmovups_ymmm256_ymm VEX_Vmovupd_xmmm128_xmm VEX_Vmovupd_ymmm256_ymm
        VEX_Vmovaps_xmmm128_xmm VEX_Vmovaps_ymmm256_ymm VEX_Vmovapd_xmmm128_xmm VEX_Vmovapd_ymmm256_ymm
        VEX_Vmovd_rm32_xmm VEX_Vmovq_rm64_xmm VEX_Vmovdqa_xmmm128_xmm VEX_Vmovdqa_ymmm256_ymm VEX_Vmovdqu_xmmm128_xmm
        VEX_Vmovdqu_ymmm256_ymm VEX_Vmovq_xmmm64_xmm VEX_Vpextrb_r32m8_xmm_imm8 VEX_Vpextrb_r64m8_xmm_imm8
        VEX_Vpextrw_r32m16_xmm_imm8 VEX_Vpextrw_r64m16_xmm_imm8 VEX_Vpextrd_rm32_xmm_imm8 VEX_Vpextrq_rm64_xmm_imm8
        VEX_Vextractps_rm32_xmm_imm8 VEX_Vextractps_r64m32_xmm_imm8 VEX_Vextractf128_xmmm128_ymm_imm8
        VEX_Vcvtps2ph_xmmm64_xmm_imm8 VEX_Vcvtps2ph_xmmm128_ymm_imm8 VEX_Vextracti128_xmmm128_ymm_imm8
    }
    Avx Masked(2) [] writes(0) clobbers() {
        VEX_Vmaskmovps_xmm_xmm_m128 VEX_Vmaskmovps_ymm_ymm_m256 VEX_Vmaskmovpd_xmm_xmm_m128
        VEX_Vmaskmovpd_ymm_ymm_m256 VEX_Vpmaskmovd_xmm_xmm_m128 VEX_Vpmaskmovd_ymm_ymm_m256
        VEX_Vpmaskmovq_xmm_xmm_m128 VEX_Vpmaskmovq_ymm_ymm_m256
    }
    Avx Gather(1) [] writes(0 2) clobbers() {
        VEX_Vpgatherdd_xmm_vm32x_xmm VEX_Vpgatherdd_ymm_vm32y_ymm VEX_Vpgatherdq_xmm_vm32x_xmm
        VEX_Vpgatherdq_ymm_vm32x_ymm VEX_Vpgatherqd_xmm_vm64x_xmm VEX_Vpgatherqd_xmm_vm64y_xmm
        VEX_Vpgatherqq_xmm_vm64x_xmm VEX_Vpgatherqq_ymm_vm64y_ymm VEX_Vgatherdps_xmm_vm32x_xmm
        VEX_Vgatherdps_ymm_vm32y_ymm VEX_Vgatherdpd_xmm_vm32x_xmm VEX_Vgatherdpd_ymm_vm32x_ymm
        VEX_Vgatherqps_xmm_vm64x_xmm VEX_Vgatherqps_xmm_vm64y_xmm VEX_Vgatherqpd_xmm_vm64x_xmm
        VEX_Vgatherqpd_ymm_vm64y_ymm
    }
}
